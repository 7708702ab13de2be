/* probe hash: size and SHA-256 of files, or of every file below a folder. */
#include "files.h"
#include "sha256.h"
#include "util.h"
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 20 };

struct hasher {
    sha256_blocks *blocks;
    unsigned char *chunk;
};

static int hash_file(void *context, int fd, struct json *line) {
    struct hasher *hasher = context;
    struct sha256 sha;
    unsigned char digest[32];
    char hex[65];
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    sha256_start(&sha, hasher->blocks);
    for (;;) {
        ssize_t got = read(fd, hasher->chunk, CHUNK);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return errno;
        if (got == 0) break;
        sha256_add(&sha, hasher->chunk, (size_t)got);
    }
    json_key(line, "size");
    json_int(line, (int64_t)sha.length);
    sha256_end(&sha, digest);
    for (int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    json_key(line, "sha256");
    json_text(line, hex);
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
        } else {
            return misuse("hash knows --tree DIR, --portable and --; got %s", words[at]);
        }
    }
    if (tree && at < count) return misuse("hash --tree takes one folder and no files, but got %s", words[at]);
    if (!tree && at == count) return misuse("hash needs files, or --tree DIR");
    hasher.chunk = must_realloc(NULL, CHUNK);
    return tell_files(hash_file, &hasher, tree, count - at, words + at);
}
