/* probe evict: drop files from the page cache, and tell how many of their bytes are in memory nevertheless.
 *
 * The kernel drops only pages that are clean and that nobody has mapped, and promises nothing: so it is asked, and then
 * the pages are counted. A load after that is cold when the count is 0. No root is needed for files of one's own.
 */
#include "files.h"
#include "util.h"
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    WINDOW = 64 << 20, /* so much of a file is mapped at a time: a 32-bit program has no room for all of it */
    SMALLEST_PAGE = 4096,
    ATTEMPTS = 4, /* pages that another CPU or the disk holds just now are skipped */
    PAUSE_MS = 20,
};

/* From Linux 5.2 on others see every page of a file as resident (mincore(2)): what they are told is no knowledge. */
static bool may_look(int fd, const struct stat *file) {
    char path[32];
    if (geteuid() == 0 || file->st_uid == geteuid()) return true;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return !access(path, W_OK);
}

static int count_window(int fd, off_t from, size_t length, size_t page, int64_t *resident) {
    static unsigned char pages[WINDOW / SMALLEST_PAGE];
    void *window = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, from);
    if (window == MAP_FAILED) return errno;
    int error = mincore(window, length, pages) ? errno : 0;
    for (size_t i = 0; !error && i * page < length; i++) {
        size_t rest = length - i * page;
        if (pages[i] & 1) *resident += (int64_t)(rest < page ? rest : page);
    }
    munmap(window, length);
    return error;
}

static int count_resident(int fd, off_t size, int64_t *resident) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    int error = 0;
    *resident = 0;
    for (off_t at = 0; at < size && !error; at += WINDOW)
        error = count_window(fd, at, size - at < WINDOW ? (size_t)(size - at) : WINDOW, page, resident);
    return error;
}

static int evict_file(void *context, int fd, const char *path, struct json *line) {
    (void)path;
    bool show_only = *(const bool *)context;
    struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000};
    struct stat file;
    int64_t resident = 0;
    if (fstat(fd, &file)) return errno;
    bool knows = may_look(fd, &file);
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        if (!show_only) {
            if (attempt) (void)nanosleep(&pause, NULL);
            (void)fdatasync(fd); /* where it is refused, nothing waits to be written */
            int refused = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            if (refused) return refused;
        }
        int error = count_resident(fd, file.st_size, &resident);
        if (error) return error;
        if (show_only || !knows || !resident) break;
    }
    json_key(line, "size");
    json_int(line, (int64_t)file.st_size);
    json_key(line, "resident_bytes");
    json_maybe(line, knows ? some(resident) : none());
    return 0;
}

int verb_evict(int count, char **words) {
    const char *tree = NULL;
    bool show_only = false;
    int at = 0;
    for (; at < count && !strncmp(words[at], "--", 2); at++) {
        if (!strcmp(words[at], "--")) {
            at++;
            break;
        }
        if (!strcmp(words[at], "--show")) {
            show_only = true;
        } else if (!strcmp(words[at], "--tree")) {
            if (!(tree = option_value(count, words, &at))) return 2;
        } else {
            return misuse("evict knows --tree DIR, --show and --; got %s", words[at]);
        }
    }
    if (tree && at < count) return misuse("evict --tree takes one folder and no files, but got %s", words[at]);
    if (!tree && at == count) return misuse("evict needs files, or --tree DIR");
    return tell_files(evict_file, &show_only, tree, count - at, words + at);
}
