/* probe hash: size and SHA-256 of files, or of every file below a folder. */
#include "json.h"
#include "sha256.h"
#include "util.h"
#include "verbs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

struct hasher {
    sha256_blocks *blocks;
    unsigned char *chunk;
    struct json json;
    bool failed;
    bool broken; /* stdout is closed */
};

static int hash_open_file(struct hasher *hasher, int fd, uint64_t *size, char hex[65]) {
    struct sha256 sha;
    struct stat found;
    unsigned char digest[32];
    if (fstat(fd, &found)) return errno;
    if (S_ISDIR(found.st_mode)) return EISDIR;
    if (!S_ISREG(found.st_mode)) return EINVAL; /* a pipe or a device has no content to name */
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    sha256_start(&sha, hasher->blocks);
    for (;;) {
        ssize_t got = read(fd, hasher->chunk, CHUNK);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (got == 0) break;
        sha256_add(&sha, hasher->chunk, (size_t)got);
    }
    *size = sha.length;
    sha256_end(&sha, digest);
    for (int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

static void begin_line(struct hasher *hasher, const char *path) {
    json_open(&hasher->json, '{');
    json_key(&hasher->json, "path");
    json_text(&hasher->json, path);
}

static void end_line(struct hasher *hasher) {
    json_close(&hasher->json, '}');
    json_newline(&hasher->json);
    hasher->broken |= !json_print(&hasher->json);
}

static void report_error(struct hasher *hasher, const char *path, int error) {
    hasher->failed = true;
    begin_line(hasher, path);
    json_key(&hasher->json, "error");
    json_text(&hasher->json, errno_name(error));
    end_line(hasher);
}

/* Hash what `at`/`path` names and report it by that path. */
static void report_file(struct hasher *hasher, int at, const char *path, int flags) {
    uint64_t size;
    char hex[65];
    int fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    int error = fd < 0 ? errno : hash_open_file(hasher, fd, &size, hex);
    if (fd >= 0) close(fd);
    if (error) {
        report_error(hasher, path, error);
        return;
    }
    begin_line(hasher, path);
    json_key(&hasher->json, "size");
    json_int(&hasher->json, (int64_t)size);
    json_key(&hasher->json, "sha256");
    json_text(&hasher->json, hex);
    end_line(hasher);
}

struct entry {
    char *path;
    bool symlink;
    int error;
};

struct entries {
    struct entry *items;
    size_t count;
};

static void add_entry(struct entries *entries, char *path, bool symlink, int error) {
    entries->items = must_realloc(entries->items, (entries->count + 1) * sizeof *entries->items);
    entries->items[entries->count++] = (struct entry){path, symlink, error};
}

/* Collect what lies in `folder` (relative to `root`, "" for the root itself). Takes `folder`. */
static void collect(struct entries *entries, int root, char *folder) {
    int fd = openat(root, *folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        int error = errno;
        if (fd >= 0) close(fd);
        add_entry(entries, folder, false, error);
        return;
    }
    errno = 0;
    for (struct dirent *item; (item = readdir(dir)); errno = 0) {
        struct stat found;
        if (!strcmp(item->d_name, ".") || !strcmp(item->d_name, "..")) continue;
        char *path = must_format("%s%s%s", folder, *folder ? "/" : "", item->d_name);
        if (fstatat(root, path, &found, AT_SYMLINK_NOFOLLOW)) add_entry(entries, path, false, errno);
        else if (S_ISDIR(found.st_mode)) collect(entries, root, path);
        else if (S_ISREG(found.st_mode) || S_ISLNK(found.st_mode))
            add_entry(entries, path, S_ISLNK(found.st_mode), 0);
        else free(path);
    }
    int error = errno;
    closedir(dir);
    if (error) add_entry(entries, folder, false, error);
    else free(folder);
}

static int by_path(const void *left, const void *right) {
    return strcmp(((const struct entry *)left)->path, ((const struct entry *)right)->path);
}

static void report_tree(struct hasher *hasher, const char *folder) {
    struct entries entries = {0};
    int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        report_error(hasher, folder, errno);
        return;
    }
    collect(&entries, root, must_format("%s", ""));
    if (entries.count) qsort(entries.items, entries.count, sizeof *entries.items, by_path);
    for (size_t i = 0; i < entries.count && !hasher->broken; i++) {
        const struct entry *entry = &entries.items[i];
        if (entry->error) {
            report_error(hasher, entry->path, entry->error);
        } else if (entry->symlink) {
            begin_line(hasher, entry->path);
            json_key(&hasher->json, "symlink");
            json_bool(&hasher->json, true);
            end_line(hasher);
        } else {
            report_file(hasher, root, entry->path, O_NOFOLLOW);
        }
    }
    close(root);
}

int verb_hash(int count, char **words) {
    sha256_blocks *fast = sha256_blocks_accelerated();
    struct hasher hasher = {.blocks = fast ? fast : sha256_blocks_portable};
    const char *tree = NULL;
    int at = 0;
    for (; at < count && !strncmp(words[at], "--", 2); at++) {
        if (!strcmp(words[at], "--")) {
            at++;
            break;
        }
        if (!strcmp(words[at], "--portable")) { /* for tests: the code of CPUs without the instructions */
            hasher.blocks = sha256_blocks_portable;
        } else if (!strcmp(words[at], "--tree")) {
            if (!(tree = option_value(count, words, &at))) return 2;
        } else {
            return misuse("hash knows --tree DIR, --portable and --; got %s", words[at]);
        }
    }
    if (tree && at < count) return misuse("hash --tree takes one folder and no files, but got %s", words[at]);
    if (!tree && at == count) return misuse("hash needs files, or --tree DIR");
    hasher.chunk = must_realloc(NULL, CHUNK);
    if (tree) report_tree(&hasher, tree);
    for (; at < count && !hasher.broken; at++) report_file(&hasher, AT_FDCWD, words[at], 0);
    if (hasher.broken) return fail("stdout is closed");
    return hasher.failed ? 1 : 0;
}
