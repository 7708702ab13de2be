/* Going on without whoever started us: adbd may die, the cable may be pulled. */
#ifndef PROBE_DETACH_H
#define PROBE_DETACH_H

/* Go on in a process of its own session. The first process stays only to print what this one writes to stdout before
 * `detach_done`, and to end with its exit status if it ends before that. `keep` is a descriptor to leave open, or -1.
 */
void detach(int keep);

/* All is said: let the first process end, and have nothing to do with its terminal any more. */
void detach_done(void);

#endif
