/* One function per verb. Each gets what follows the verb and returns the exit status:
 * 0 done, 1 could not, 2 wrong usage.
 */
#ifndef PROBE_VERBS_H
#define PROBE_VERBS_H

int verb_facts(int count, char **words);
int verb_hash(int count, char **words);
int verb_receive(int count, char **words);
int verb_evict(int count, char **words);
int verb_run(int count, char **words);
int verb_attach(int count, char **words);
int verb_stop(int count, char **words);
int verb_bandwidth(int count, char **words);
int verb_lease(int count, char **words);
int verb_lease_show(int count, char **words);
int verb_lease_extend(int count, char **words);
int verb_lease_end(int count, char **words);

/* The value of option `words[*at]`, or NULL after a sentence on stderr when it has none. */
const char *option_value(int count, char **words, int *at);

#endif
