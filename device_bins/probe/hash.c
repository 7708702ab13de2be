/* probe hash: size and SHA-256 of files, or of every file below a folder.
 *
 * With --stamp FILE the hashes are kept there, and with --trust-s a file that is unchanged since it was hashed, in this
 * boot and no longer ago than that, is not read again: see stamp.h.
 */
#include "files.h"
#include "sha256.h"
#include "stamp.h"
#include "util.h"
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

struct hasher {
    sha256_blocks *blocks;
    unsigned char *chunk;
    const char *stamp_file;
    int64_t trust_s;
    struct stamps before;
    struct stamps after;
};

static int hash_content(struct hasher *hasher, int fd, int64_t *size, char hex[65]) {
    struct sha256 sha;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    sha256_start(&sha, hasher->blocks);
    for (;;) {
        ssize_t got = read(fd, hasher->chunk, CHUNK);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (got == 0) break;
        sha256_add(&sha, hasher->chunk, (size_t)got);
    }
    *size = (int64_t)sha.length;
    sha256_hex(&sha, hex);
    return 0;
}

static int hash_file(void *context, int fd, const char *path, struct json *line) {
    struct hasher *hasher = context;
    struct stat then, now;
    int64_t size;
    char hex[65];
    if (fstat(fd, &then)) return errno;
    const struct stamp *stamp = stamps_find(&hasher->before, path, &then, hasher->trust_s);
    if (stamp) {
        stamps_keep(&hasher->after, stamp);
        size = stamp->size;
        memcpy(hex, stamp->sha256, sizeof hex);
    } else {
        bool settled = hasher->stamp_file && stamp_settles(&then);
        int error = hash_content(hasher, fd, &size, hex);
        if (error) return error;
        if (settled && !fstat(fd, &now) && stamp_same(&then, &now)) stamps_add(&hasher->after, path, &then, hex);
    }
    json_key(line, "size");
    json_int(line, size);
    json_key(line, "sha256");
    json_text(line, hex);
    if (stamp) {
        json_key(line, "stamped");
        json_bool(line, true);
    }
    return 0;
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
        } else if (!strcmp(words[at], "--stamp")) {
            if (!(hasher.stamp_file = option_value(count, words, &at))) return 2;
        } else if (!strcmp(words[at], "--trust-s")) {
            const char *number = option_value(count, words, &at);
            if (!number) return 2;
            if (!parse_i64(number, &hasher.trust_s)) return misuse("--trust-s is a number of seconds; got %s", number);
        } else {
            return misuse("hash knows --tree DIR, --stamp FILE, --trust-s S, --portable and --; got %s", words[at]);
        }
    }
    if (tree && at < count) return misuse("hash --tree takes one folder and no files, but got %s", words[at]);
    if (!tree && at == count) return misuse("hash needs files, or --tree DIR");
    hasher.chunk = must_realloc(NULL, CHUNK);
    if (hasher.stamp_file) {
        stamps_load(&hasher.before, hasher.stamp_file);
        stamps_begin(&hasher.after, hasher.stamp_file);
    }
    int status = tell_files(hash_file, &hasher, tree, count - at, words + at);
    if (hasher.stamp_file && hasher.after.count) stamps_save(&hasher.after);
    return status;
}
