/* Stamps: what the hash of a file was when it was last computed, so that it need not be computed again.
 *
 * The kernel changes a file's ctime at every write, and nobody can set it. So a file with device, inode, size, mtime and
 * ctime as stamped has the content that was hashed, as long as the phone did not start anew meanwhile (a power cut may
 * lose what was written) and the storage itself does not rot: for that, stamps have an age.
 */
#ifndef PROBE_STAMP_H
#define PROBE_STAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

struct stamp {
    int64_t device, inode, size, mtime_ns, ctime_ns;
    int64_t hashed_s; /* on CLOCK_BOOTTIME, which nobody can set */
    char sha256[65];
    char *path;
};

struct stamps {
    const char *file;
    char boot_id[64];
    struct stamp *items;
    size_t count;
};

/* Begin without any, to be kept in `file`. */
void stamps_begin(struct stamps *stamps, const char *file);

/* Read the stamps in `file`; none where there are none, of this boot, that make sense. */
void stamps_load(struct stamps *stamps, const char *file);

/* Whether a file is as it was when it was stamped. */
bool stamp_fits(const struct stamp *stamp, const struct stat *now);

/* The SHA-256 of `path`, if it is as it was when it was hashed, no more than `trust_s` ago; else NULL. */
const struct stamp *stamps_find(const struct stamps *stamps, const char *path, const struct stat *now, int64_t trust_s);

/* Stamp a file that was as `then` tells before it was read for hashing. */
void stamps_add(struct stamps *stamps, const char *path, const struct stat *then, const char *sha256);

/* Keep what a find has returned. */
void stamps_keep(struct stamps *stamps, const struct stamp *stamp);

/* Write all to its file. What cannot be written only costs time later. */
void stamps_save(const struct stamps *stamps);

/* Wait until a write from now on would give a ctime later than that of `file`. False when that takes too long, as when
 * the clock was set back: then a later write might go unnoticed.
 */
bool stamp_settles(const struct stat *file);

/* Whether two looks saw the same file, unchanged. */
bool stamp_same(const struct stat *left, const struct stat *right);

#endif
