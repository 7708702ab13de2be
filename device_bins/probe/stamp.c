#include "stamp.h"
#include "util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    VERSION = 1,
    MOST_BYTES = 16 << 20, /* a larger file is none of ours */
    SETTLE_MS = 100,       /* clocks of file times tick every 1 to 10 ms */
    PAUSE_MS = 2,
};

static int64_t nanoseconds(struct timespec time) { return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec; }

static char *slurp(const char *path, size_t *length) {
    struct stat found;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    char *data = NULL;
    ssize_t got = -1;
    if (fd >= 0 && !fstat(fd, &found) && S_ISREG(found.st_mode) && found.st_size <= MOST_BYTES) {
        data = must_realloc(NULL, (size_t)found.st_size + 1);
        got = read_file(path, data, (size_t)found.st_size + 1);
    }
    if (fd >= 0) close(fd);
    if (got < 0) {
        free(data);
        return NULL;
    }
    *length = (size_t)got;
    return data;
}

static struct stamp *add(struct stamps *stamps) {
    stamps->items = must_realloc(stamps->items, (stamps->count + 1) * sizeof *stamps->items);
    return &stamps->items[stamps->count++];
}

static void parse(struct stamps *stamps, char *data, size_t length) {
    char boot_id[64];
    int version;
    if (sscanf(data, "probe-stamps %d %63s", &version, boot_id) != 2 || version != VERSION) return;
    if (strcmp(boot_id, stamps->boot_id)) return;
    for (char *at = data + strlen(data) + 1; at < data + length; at += strlen(at) + 1) {
        struct stamp read = {0};
        long long device, inode, size, mtime, ctime, hashed;
        int path = 0;
        if (sscanf(at, "%lld %lld %lld %lld %lld %lld %64[0-9a-f]%n", &device, &inode, &size, &mtime, &ctime, &hashed,
                   read.sha256, &path) != 7 || strlen(read.sha256) != 64 || at[path] != ' ')
            continue;
        read.device = device, read.inode = inode, read.size = size;
        read.mtime_ns = mtime, read.ctime_ns = ctime, read.hashed_s = hashed;
        read.path = must_format("%s", at + path + 1);
        *add(stamps) = read;
    }
}

void stamps_begin(struct stamps *stamps, const char *file) {
    *stamps = (struct stamps){.file = file};
    /* without it nothing can be trusted, and nothing is stamped */
    if (!read_boot_id("/proc", stamps->boot_id, sizeof stamps->boot_id, NULL)) stamps->boot_id[0] = '\0';
}

void stamps_load(struct stamps *stamps, const char *file) {
    size_t length = 0;
    stamps_begin(stamps, file);
    char *data = *stamps->boot_id ? slurp(file, &length) : NULL;
    if (data) parse(stamps, data, length);
    free(data);
}

bool stamp_fits(const struct stamp *stamp, const struct stat *now) {
    return stamp->device == (int64_t)now->st_dev && stamp->inode == (int64_t)now->st_ino &&
           stamp->size == (int64_t)now->st_size && stamp->mtime_ns == nanoseconds(now->st_mtim) &&
           stamp->ctime_ns == nanoseconds(now->st_ctim);
}

const struct stamp *stamps_find(const struct stamps *stamps, const char *path, const struct stat *now, int64_t trust_s) {
    int64_t now_s = clock_ns(CLOCK_BOOTTIME) / 1000000000;
    for (size_t i = 0; i < stamps->count; i++) {
        const struct stamp *one = &stamps->items[i];
        if (strcmp(one->path, path)) continue;
        int64_t age_s = now_s - one->hashed_s;
        return age_s >= 0 && age_s < trust_s && stamp_fits(one, now) ? one : NULL;
    }
    return NULL;
}

void stamps_add(struct stamps *stamps, const char *path, const struct stat *then, const char *sha256) {
    struct stamp *one = add(stamps);
    *one = (struct stamp){.device = (int64_t)then->st_dev,
                          .inode = (int64_t)then->st_ino,
                          .size = (int64_t)then->st_size,
                          .mtime_ns = nanoseconds(then->st_mtim),
                          .ctime_ns = nanoseconds(then->st_ctim),
                          .hashed_s = clock_ns(CLOCK_BOOTTIME) / 1000000000,
                          .path = must_format("%s", path)};
    snprintf(one->sha256, sizeof one->sha256, "%s", sha256);
}

void stamps_keep(struct stamps *stamps, const struct stamp *stamp) {
    struct stamp copy = *stamp; /* `add` may move it */
    copy.path = must_format("%s", stamp->path);
    *add(stamps) = copy;
}

static bool write_stamps(const struct stamps *stamps, FILE *out) {
    fprintf(out, "probe-stamps %d %s", VERSION, stamps->boot_id);
    fputc('\0', out);
    for (size_t i = 0; i < stamps->count; i++) {
        const struct stamp *one = &stamps->items[i];
        fprintf(out, "%lld %lld %lld %lld %lld %lld %s %s", (long long)one->device, (long long)one->inode,
                (long long)one->size, (long long)one->mtime_ns, (long long)one->ctime_ns, (long long)one->hashed_s,
                one->sha256, one->path);
        fputc('\0', out);
    }
    bool failed = ferror(out);
    return !fclose(out) && !failed;
}

void stamps_save(const struct stamps *stamps) {
    if (!*stamps->boot_id) return;
    char *fresh = must_format("%s.new", stamps->file);
    char *slash = strrchr(fresh, '/');
    if (slash) {
        *slash = '\0';
        (void)make_folders(fresh); /* the open below tells */
        *slash = '/';
    }
    FILE *out = fopen(fresh, "we");
    if (!out || !write_stamps(stamps, out) || rename(fresh, stamps->file)) {
        (void)unlink(fresh);
        (void)unlink(stamps->file); /* an old one would only be in the way */
    }
    free(fresh);
}

bool stamp_settles(const struct stat *file) {
    struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};
    for (int waited = 0; waited < SETTLE_MS; waited += PAUSE_MS) {
        if (clock_ns(CLOCK_REALTIME_COARSE) > nanoseconds(file->st_ctim)) return true;
        (void)nanosleep(&pause, NULL);
    }
    return false;
}

bool stamp_same(const struct stat *left, const struct stat *right) {
    return left->st_dev == right->st_dev && left->st_ino == right->st_ino && left->st_size == right->st_size &&
           nanoseconds(left->st_mtim) == nanoseconds(right->st_mtim) &&
           nanoseconds(left->st_ctim) == nanoseconds(right->st_ctim);
}
