/* One line of JSON for each file: the walk and the errors of verbs that tell something of files. */
#ifndef PROBE_FILES_H
#define PROBE_FILES_H

#include "json.h"

/* Tell of an open regular file, by the path that is told: add keys to `line`. Returns 0, or the errno that is told
 * instead.
 */
typedef int tell_file(void *context, int fd, const char *path, struct json *line);

/* Tell of the files of `paths`, or of every file below `tree` in the order of bytes; links below it are named and not
 * followed. Returns the exit status: 1 when any file could not be told of.
 */
int tell_files(tell_file *tell, void *context, const char *tree, int count, char **paths);

#endif
