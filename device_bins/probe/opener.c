#include "opener.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOOK_EVERY_MS = 10 };

static bool has_open(pid_t pid, const struct stat *wanted) {
    bool found = false;
    char *folder = must_format("/proc/%d/fd", (int)pid);
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        struct stat file;
        char *path = must_format("%s/%s", folder, entry->d_name);
        found = !stat(path, &file) && file.st_dev == wanted->st_dev && file.st_ino == wanted->st_ino;
        free(path);
    }
    if (dir) closedir(dir);
    free(folder);
    return found;
}

bool end_opener(pid_t pid, int fd) {
    struct stat wanted;
    if (pid <= 1 || pid == getpid() || fstat(fd, &wanted) || !has_open(pid, &wanted) || kill(pid, SIGTERM)) return false;
    (void)kill(pid, SIGCONT); /* one that was stopped has to go on to end */
    return true;
}

bool is_unlocked(int fd) {
    if (flock(fd, LOCK_SH | LOCK_NB)) return false;
    (void)flock(fd, LOCK_UN);
    return true;
}

bool await_unlocked(int fd, int patience_ms) {
    struct timespec pause = {.tv_nsec = LOOK_EVERY_MS * 1000000};
    int64_t until = clock_ns(CLOCK_MONOTONIC) + (int64_t)patience_ms * 1000000;
    while (!is_unlocked(fd)) {
        if (clock_ns(CLOCK_MONOTONIC) >= until) return false;
        (void)nanosleep(&pause, NULL);
    }
    return true;
}
