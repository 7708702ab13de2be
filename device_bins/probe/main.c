/* The probe: facts, hashes and supervised runs on a phone. All that it says is JSON lines on stdout. */
#include "json.h"
#include "util.h"
#include "verbs.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#ifndef PROBE_SOURCE
#define PROBE_SOURCE "unknown"
#endif

const char *option_value(int count, char **words, int *at) {
    if (*at + 1 < count) return words[++*at];
    misuse("%s needs a value", words[*at]);
    return NULL;
}

static int verb_version(int count, char **words) {
    if (count) return misuse("version takes no arguments, but got %s", words[0]);
    struct json json = {0};
    json_open(&json, '{');
    json_key(&json, "probe");
    json_int(&json, 1);
    json_key(&json, "source");
    json_text(&json, PROBE_SOURCE);
    json_close(&json, '}');
    json_newline(&json);
    return json_print(&json) ? 0 : fail("stdout is closed");
}

/* Were 0, 1 or 2 closed, the next file we open would get that number and be taken for it. */
static bool hold_standard_files(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) return false;
    return true;
}

int main(int count, char **words) {
    static const struct {
        const char *name;
        int (*run)(int count, char **words);
    } verbs[] = {{"version", verb_version},       {"facts", verb_facts},           {"hash", verb_hash},
                 {"evict", verb_evict},           {"run", verb_run},               {"attach", verb_attach},
                 {"stop", verb_stop},             {"bandwidth", verb_bandwidth},   {"lease", verb_lease},
                 {"lease-show", verb_lease_show}, {"lease-extend", verb_lease_extend},
                 {"lease-end", verb_lease_end},   {"receive", verb_receive}};
    if (!hold_standard_files()) return 1;
    const char *wanted = count > 1 ? words[1] : "nothing";
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(verbs[i].name, wanted)) return verbs[i].run(count - 2, words + 2);
    return misuse("the verb is one of version, facts, hash, evict, run, attach, stop, bandwidth, lease, lease-show, lease-extend, lease-end, receive; got %s", wanted);
}
