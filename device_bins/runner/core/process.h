/* What this process holds, and where. */
#ifndef RUNNER_PROCESS_H
#define RUNNER_PROCESS_H

#include "line.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What this process holds in RAM now, in bytes; -1 where /proc may not be read. */
int64_t resident_bytes(void);

/* The size of the files in the current folder whose names begin so; 0 for none, and for a name of NULL. */
int64_t files_bytes(const char *name);

/* A path that still leads there from another folder. */
void absolute_path(struct line *path, const char *text);

#ifdef __cplusplus
}
#endif

#endif
