/* probe receive: put a pushed payload together from pieces, hashing it on the way.
 *
 * adb's file transfer can neither write at an offset nor leave what had arrived when it broke off. So everything comes as
 * pieces, each a file of its own in DIR/pieces. The first piece of a file becomes the file below DIR/payload, while it
 * still arrives if it is large; further ones are appended. What is there when the connection is cut stays, and the next
 * push goes on from it.
 *
 * First it tells size and SHA-256 of all that is there, then that it is ready. Then come orders on stdin, each ended by a
 * NUL: `file MODE OFFSET PATH` (go on with a file that is OFFSET long, or anew with 0), `grow NAME LENGTH` (a piece that
 * is arriving), `piece NAME LENGTH` (one that has arrived), `zeros COUNT`, `done`, `drop PATH`, `end`. An answer with
 * nothing but a number of hashed bytes is a sign of life.
 */
#include "files.h"
#include "sha256.h"
#include "stamp.h"
#include "util.h"
#include "verbs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum {
    CHUNK = 256 << 10,       /* stays in the cache between reading, hashing and writing */
    LONGEST_ORDER = 8 << 10, /* a path has 4096 bytes at most */
    LOCK_MS = 20000,         /* another push ends as soon as adbd notices that its connection is gone */
    PAUSE_MS = 20,
    GROW_MS = 3, /* at the fastest link, a megabyte or two */
};

static const int64_t alive_ns = 1000000000;

/* A file that is there in part: how far, and the hash so far. */
struct part {
    char *path;
    struct sha256 sha;
};

struct receiver {
    const char *folder;
    sha256_blocks *blocks;
    unsigned char *chunk;
    unsigned char *zeros;
    struct part *parts;
    size_t part_count;
    struct stamps stamps;
    int64_t told_ns;
    struct json line;
    /* the file in hand */
    char *path; /* NULL when there is none */
    char *full;
    int fd; /* -1 until there is a byte */
    mode_t mode;
    struct sha256 sha;
};

static void tell(struct receiver *receiver) {
    json_close(&receiver->line, '}');
    json_newline(&receiver->line);
    receiver->told_ns = clock_ns(CLOCK_MONOTONIC);
    if (!json_print(&receiver->line)) exit(fail("stdout is closed"));
}

static void begin(struct receiver *receiver, const char *key) {
    json_reset(&receiver->line);
    json_open(&receiver->line, '{');
    json_key(&receiver->line, key);
}

/* Whoever waits for an answer must see that work goes on. */
static void stay_alive(struct receiver *receiver, uint64_t hashed) {
    if (clock_ns(CLOCK_MONOTONIC) - receiver->told_ns < alive_ns) return;
    begin(receiver, "hashed");
    json_int(&receiver->line, (int64_t)hashed);
    tell(receiver);
}

static ssize_t read_all(int fd, unsigned char *buffer, size_t count) {
    size_t done = 0;
    while (done < count) {
        ssize_t got = read(fd, buffer + done, count - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -1;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

static bool write_all(int fd, const unsigned char *data, size_t count, off_t at) {
    while (count) {
        ssize_t wrote = pwrite(fd, data, count, at);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return false;
        data += wrote, count -= (size_t)wrote, at += wrote;
    }
    return true;
}

/* --- what is there already --- */

static int hash_part(void *context, int fd, const char *path, struct json *line) {
    struct receiver *receiver = context;
    struct sha256 sha;
    char hex[65];
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    sha256_start(&sha, receiver->blocks);
    for (;;) {
        ssize_t got = read_all(fd, receiver->chunk, CHUNK);
        if (got < 0) return errno;
        sha256_add(&sha, receiver->chunk, (size_t)got);
        if (got < CHUNK) break;
        stay_alive(receiver, sha.length);
    }
    receiver->parts = must_realloc(receiver->parts, (receiver->part_count + 1) * sizeof *receiver->parts);
    receiver->parts[receiver->part_count++] = (struct part){must_format("%s", path), sha};
    json_key(line, "size");
    json_int(line, (int64_t)sha.length);
    sha256_hex(&sha, hex);
    json_key(line, "sha256");
    json_text(line, hex);
    return 0;
}

static void remove_pieces(const struct receiver *receiver) {
    char *folder = must_format("%s/pieces", receiver->folder);
    DIR *dir = opendir(folder);
    for (struct dirent *item; dir && (item = readdir(dir));) {
        char *path = must_format("%s/%s", folder, item->d_name);
        (void)unlink(path); /* refused for . and .. */
        free(path);
    }
    if (dir) closedir(dir);
    (void)rmdir(folder);
    free(folder);
}

/* Have the folder to ourselves. Whoever has it is a push whose connection broke: it ends when adbd has noticed. */
static int lock_folder(struct receiver *receiver) {
    const char *folder = receiver->folder;
    struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail("cannot open %s (%s)", folder, errno_name(errno));
    for (int waited = 0; flock(fd, LOCK_EX | LOCK_NB); waited += PAUSE_MS) {
        if (errno != EWOULDBLOCK && errno != EINTR) return fail("cannot lock %s (%s)", folder, errno_name(errno));
        if (waited >= LOCK_MS) return fail("another push into %s goes on: wait for its end", folder);
        (void)nanosleep(&pause, NULL);
        stay_alive(receiver, 0);
    }
    (void)futimens(fd, NULL); /* so that its age is that of the last try */
    return 0;                 /* held until we end */
}

static void tell_ready(struct receiver *receiver) {
    struct statvfs disk;
    bool known = !statvfs(receiver->folder, &disk);
    begin(receiver, "ready");
    json_bool(&receiver->line, true);
    json_key(&receiver->line, "free_bytes");
    json_maybe(&receiver->line, known ? some((int64_t)((uint64_t)disk.f_bavail * disk.f_frsize)) : none());
    tell(receiver);
}

/* --- orders --- */

/* A path below a folder, and not out of it. */
static bool path_stays_inside(const char *path) {
    if (!*path || *path == '/') return false;
    for (const char *part = path;; part++) {
        size_t length = strcspn(part, "/");
        if (!length || (length == 1 && *part == '.') || (length == 2 && part[0] == '.' && part[1] == '.')) return false;
        part += length;
        if (!*part) return true;
    }
}

static int write_failed(const struct receiver *receiver, int error) {
    return fail("cannot write %s (%s)", receiver->full, errno_name(error));
}

static int order_file(struct receiver *receiver, char *words) {
    int mode = 0, path = 0;
    int64_t offset = -1;
    if (receiver->path) return misuse("file before done");
    if (sscanf(words, "%o %" SCNd64 "%n", (unsigned *)&mode, &offset, &path) != 2 || words[path] != ' ' || offset < 0)
        return misuse("file wants MODE OFFSET PATH; got %s", words);
    char *name = words + path + 1;
    if (!path_stays_inside(name)) return misuse("%s is no path below a folder", name);
    receiver->path = must_format("%s", name);
    receiver->full = must_format("%s/payload/%s", receiver->folder, name);
    receiver->mode = (mode_t)mode & 0777;
    receiver->fd = -1;
    sha256_start(&receiver->sha, receiver->blocks);
    if (offset == 0) {
        char *slash = strrchr(receiver->full, '/');
        *slash = '\0';
        int error = make_folders(receiver->full);
        *slash = '/';
        if (error) return write_failed(receiver, error);
        return unlink(receiver->full) && errno != ENOENT ? write_failed(receiver, errno) : 0;
    }
    for (size_t i = 0; i < receiver->part_count; i++) {
        struct part *part = &receiver->parts[i];
        if (strcmp(part->path, name) || part->sha.length != (uint64_t)offset) continue;
        struct stat found;
        receiver->sha = part->sha;
        receiver->fd = open(receiver->full, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (receiver->fd < 0 || fstat(receiver->fd, &found)) return write_failed(receiver, errno);
        if (found.st_size == offset) return 0;
    }
    return fail("%s is not there with %" PRId64 " bytes", name, offset);
}

/* Append what `from` holds, or with `own` only hash it: then it is the file itself. */
static int take_content(struct receiver *receiver, int from, bool own, int64_t length) {
    uint64_t begun = receiver->sha.length;
    for (;;) {
        ssize_t got = read_all(from, receiver->chunk, CHUNK);
        if (got < 0) return fail("cannot read a piece of %s (%s)", receiver->path, errno_name(errno));
        off_t at = (off_t)receiver->sha.length;
        if (!own && !write_all(receiver->fd, receiver->chunk, (size_t)got, at)) return write_failed(receiver, errno);
        sha256_add(&receiver->sha, receiver->chunk, (size_t)got);
        if (got < CHUNK) break;
    }
    int64_t came = (int64_t)(receiver->sha.length - begun);
    if (came == length) return 0;
    return fail("a piece of %s has %" PRId64 " bytes instead of %" PRId64, receiver->path, came, length);
}

static int order_piece(struct receiver *receiver, char *words) {
    char name[32];
    int64_t length = -1;
    if (!receiver->path) return misuse("piece before file");
    if (sscanf(words, "%31[0-9] %" SCNd64, name, &length) != 2 || length < 0)
        return misuse("piece wants NAME LENGTH; got %s", words);
    char *piece = must_format("%s/pieces/%s", receiver->folder, name);
    bool own = receiver->fd < 0; /* the first piece becomes the file: most files need no copying */
    if (own && rename(piece, receiver->full)) return write_failed(receiver, errno);
    int fd = open(own ? receiver->full : piece, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return fail("cannot open a piece of %s (%s)", receiver->path, errno_name(errno));
    if (own) receiver->fd = fd;
    int status = take_content(receiver, fd, own, length);
    if (!own) {
        close(fd);
        (void)unlink(piece);
    }
    free(piece);
    if (status) return status;
    begin(receiver, "taken");
    json_text(&receiver->line, name);
    tell(receiver);
    return 0;
}

/* Whether whoever gives the orders is gone; waits a moment for it. */
static bool hung_up(void) {
    struct pollfd in = {.fd = STDIN_FILENO};
    return poll(&in, 1, GROW_MS) > 0 && in.revents;
}

/* Make a piece that is still arriving the file, and hash it as it grows. adbd writes on through its descriptor; were the
 * piece where adbd has put it, it would be removed when the connection is cut.
 */
static int order_grow(struct receiver *receiver, char *words) {
    char name[32];
    int64_t length = -1;
    if (!receiver->path || receiver->fd >= 0) return misuse("grow comes after file, and before anything else");
    if (sscanf(words, "%31[0-9] %" SCNd64, name, &length) != 2 || length < 0)
        return misuse("grow wants NAME LENGTH; got %s", words);
    char *piece = must_format("%s/pieces/%s", receiver->folder, name);
    while (rename(piece, receiver->full)) {
        if (errno != ENOENT) return write_failed(receiver, errno);
        if (hung_up()) return fail("the push broke off");
        stay_alive(receiver, 0);
    }
    free(piece);
    receiver->fd = open(receiver->full, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    while (receiver->fd >= 0 && receiver->sha.length < (uint64_t)length) {
        ssize_t got = pread(receiver->fd, receiver->chunk, CHUNK, (off_t)receiver->sha.length);
        if (got < 0 && errno != EINTR) break;
        if (got > 0) sha256_add(&receiver->sha, receiver->chunk, (size_t)got);
        if (got < CHUNK && receiver->sha.length < (uint64_t)length && hung_up()) return fail("the push broke off");
        stay_alive(receiver, receiver->sha.length);
    }
    if (receiver->sha.length == (uint64_t)length) return 0;
    return fail("cannot read %s (%s)", receiver->full, errno_name(errno));
}

static bool open_new(struct receiver *receiver) {
    if (receiver->fd < 0)
        receiver->fd = open(receiver->full, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return receiver->fd >= 0;
}

static int order_zeros(struct receiver *receiver, char *words) {
    int64_t count = -1;
    if (!receiver->path) return misuse("zeros before file");
    if (!parse_i64(words, &count) || count < 0) return misuse("zeros wants a COUNT; got %s", words);
    if (!receiver->zeros) {
        receiver->zeros = must_realloc(NULL, CHUNK);
        memset(receiver->zeros, 0, CHUNK);
    }
    if (!open_new(receiver) || ftruncate(receiver->fd, (off_t)receiver->sha.length + (off_t)count))
        return write_failed(receiver, errno);
    while (count) {
        size_t some_zeros = count < CHUNK ? (size_t)count : CHUNK;
        sha256_add(&receiver->sha, receiver->zeros, some_zeros);
        count -= (int64_t)some_zeros;
        stay_alive(receiver, receiver->sha.length);
    }
    return 0;
}

static int order_done(struct receiver *receiver) {
    struct stat now;
    char hex[65];
    if (!receiver->path) return misuse("done before file");
    if (!open_new(receiver) || fchmod(receiver->fd, receiver->mode) || fstat(receiver->fd, &now))
        return write_failed(receiver, errno);
    int64_t size = (int64_t)receiver->sha.length;
    sha256_hex(&receiver->sha, hex);
    if ((int64_t)now.st_size == size) stamps_add(&receiver->stamps, receiver->path, &now, hex);
    begin(receiver, "path");
    json_text(&receiver->line, receiver->path);
    json_key(&receiver->line, "size");
    json_int(&receiver->line, (int64_t)now.st_size);
    json_key(&receiver->line, "sha256");
    json_text(&receiver->line, hex);
    tell(receiver);
    if (close(receiver->fd)) return write_failed(receiver, errno);
    free(receiver->path);
    free(receiver->full);
    receiver->path = receiver->full = NULL;
    return 0;
}

static int order_drop(struct receiver *receiver, const char *name) {
    if (!path_stays_inside(name)) return misuse("%s is no path below a folder", name);
    char *path = must_format("%s/payload/%s", receiver->folder, name);
    int error = unlink(path) && errno != ENOENT ? errno : 0;
    free(path);
    return error ? fail("cannot remove %s (%s)", name, errno_name(error)) : 0;
}

/* Stamp what a later write would be sure to show on. */
static int order_end(struct receiver *receiver) {
    struct stamps settled;
    stamps_begin(&settled, receiver->stamps.file);
    for (size_t i = 0; i < receiver->stamps.count; i++) {
        const struct stamp *stamp = &receiver->stamps.items[i];
        char *path = must_format("%s/payload/%s", receiver->folder, stamp->path);
        struct stat now;
        if (!lstat(path, &now) && stamp_settles(&now) && stamp_fits(stamp, &now)) stamps_keep(&settled, stamp);
        free(path);
    }
    stamps_save(&settled);
    remove_pieces(receiver);
    begin(receiver, "end");
    json_bool(&receiver->line, true);
    tell(receiver);
    return 0;
}

static int obey(struct receiver *receiver, char *order, bool *ended) {
    char *words = order + strcspn(order, " ");
    if (*words) *words++ = '\0';
    if (!strcmp(order, "file")) return order_file(receiver, words);
    if (!strcmp(order, "piece")) return order_piece(receiver, words);
    if (!strcmp(order, "grow")) return order_grow(receiver, words);
    if (!strcmp(order, "zeros")) return order_zeros(receiver, words);
    if (!strcmp(order, "done")) return order_done(receiver);
    if (!strcmp(order, "drop")) return order_drop(receiver, words);
    if (strcmp(order, "end")) return misuse("orders are file, piece, grow, zeros, done, drop, end; got %s", order);
    *ended = true;
    return order_end(receiver);
}

static int obey_all(struct receiver *receiver) {
    static char orders[LONGEST_ORDER];
    size_t held = 0;
    bool ended = false;
    int status = 0;
    while (!ended && !status) {
        ssize_t got = read(STDIN_FILENO, orders + held, sizeof orders - held);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return fail("the push broke off");
        held += (size_t)got;
        char *at = orders;
        for (char *nul; !ended && !status && (nul = memchr(at, '\0', held)); at = nul + 1) {
            held -= (size_t)(nul + 1 - at);
            status = obey(receiver, at, &ended);
        }
        memmove(orders, at, held);
        if (held == sizeof orders) return misuse("an order is longer than %d bytes", LONGEST_ORDER);
    }
    return status;
}

int verb_receive(int count, char **words) {
    sha256_blocks *fast = sha256_blocks_accelerated();
    struct receiver receiver = {.blocks = fast ? fast : sha256_blocks_portable, .fd = -1};
    const char *stamp_file = NULL;
    int at = 0;
    for (; at < count && !strncmp(words[at], "--", 2); at++) {
        if (strcmp(words[at], "--stamp")) return misuse("receive knows --stamp FILE; got %s", words[at]);
        if (!(stamp_file = option_value(count, words, &at))) return 2;
    }
    if (!stamp_file || count - at != 1) return misuse("receive needs --stamp FILE and one folder");
    receiver.folder = words[at];
    receiver.told_ns = clock_ns(CLOCK_MONOTONIC);
    receiver.chunk = must_realloc(NULL, CHUNK);
    umask(022);
    char *payload = must_format("%s/payload", receiver.folder);
    int error = make_folders(payload);
    if (error) return fail("cannot make the folder %s (%s)", payload, errno_name(error));
    int status = lock_folder(&receiver);
    if (status) return status;
    remove_pieces(&receiver);
    stamps_begin(&receiver.stamps, stamp_file);
    (void)tell_files(hash_part, &receiver, payload, 0, NULL); /* what cannot be read comes anew */
    tell_ready(&receiver);
    return obey_all(&receiver);
}
