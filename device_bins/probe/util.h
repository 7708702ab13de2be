/* Small things that every verb needs. Unknown is `known == false`, never 0. */
#ifndef PROBE_UTIL_H
#define PROBE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct maybe {
    bool known;
    int64_t value;
};

static inline struct maybe some(int64_t value) { return (struct maybe){.known = true, .value = value}; }
static inline struct maybe none(void) { return (struct maybe){.known = false, .value = 0}; }

/* Where sysfs and procfs are; tests show the probe trees of their own. */
struct roots {
    const char *sysfs;
    const char *procfs;
};

/* Files that exist and could not be read, and why. */
struct denied {
    struct {
        char *path;
        int error;
    } *items;
    size_t count;
};

int fail(const char *format, ...) __attribute__((format(printf, 1, 2)));   /* one sentence; returns 1 */
int misuse(const char *format, ...) __attribute__((format(printf, 1, 2))); /* one sentence; returns 2 */

void *must_realloc(void *old, size_t size);
char *must_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

int64_t clock_ns(int clock);
const char *errno_name(int error);

/* Make a folder and those above it. Returns 0 or errno. */
int make_folders(const char *folder);

/* Read at most `cap - 1` bytes and end them with a NUL. Returns the length or -errno. */
ssize_t read_file(const char *path, char *buffer, size_t cap);
ssize_t read_again(int fd, char *buffer, size_t cap);

/* A decimal number, blanks around it allowed. */
bool parse_i64(const char *text, int64_t *value);
struct maybe parse_maybe(const char *text);

/* The value of a line `Name:   123 kB` in text of the form of /proc/meminfo, times `scale`. */
struct maybe find_field(const char *text, const char *name, int64_t scale);

/* Read a file that holds one number; what exists but cannot be read is noted. */
struct maybe read_number(const char *path, struct denied *denied);
bool read_boot_id(const char *procfs, char *buffer, size_t cap, struct denied *denied);
void note_denied(struct denied *denied, const char *path, int error);

#endif
