/* Finding a process by the file that it holds open: a number alone may have gone to another process. */
#ifndef PROBE_OPENER_H
#define PROBE_OPENER_H

#include "util.h"

/* Send SIGTERM to process `pid` if it has the file of `fd` open. Returns whether it was sent. */
bool end_opener(pid_t pid, int fd);

/* Does nobody hold the flock on the file of `fd`? */
bool is_unlocked(int fd);

/* Wait until that is so, for at most `patience_ms`. */
bool await_unlocked(int fd, int patience_ms);

#endif
