/* Keeps what an engine prints off the event stream: it all goes to stderr, and is read along. */
#ifndef RUNNER_HEARING_H
#define RUNNER_HEARING_H

#include "line.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What was noticed until now. */
struct heard {
    struct line fallback;   /* the first line that tells of another backend, empty for none */
    struct line complaints; /* the last four lines that sound like an error, with ` | ` between */
};

/* From here on fd 1 and 2 lead to stderr; `events_fd` is the one that the copier must not hold.
 *
 * A child process copies: what was printed before a crash still arrives, and no engine that forks, waits or prints from
 * several threads can get in its way. */
void hearing_start(int events_fd);
/* Nothing, when no engine is heard. */
struct heard hearing_ask(void);
void heard_free(struct heard *heard);
/* Give fd 1 and 2 back to stderr and wait until the last line is copied. */
void hearing_stop(void);

/* Copy lines until `source` ends, answering each sync mark. For the child and for tests. */
void copy_along(int source, int answers, int sink);

#ifdef __cplusplus
}
#endif

#endif
