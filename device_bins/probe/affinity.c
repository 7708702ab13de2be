#include "affinity.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_CAP = 4096 };

static bool is_gone(int error) { return error == ENOENT || error == ESRCH; }

static void add_list(struct affinity *affinity, const char *list) {
    for (size_t i = 0; i < affinity->count; i++)
        if (!strcmp(affinity->lists[i], list)) return;
    if (affinity->count == MAX_CPU_LISTS) affinity->known = false;
    else strcpy(affinity->lists[affinity->count++], list);
}

static void read_thread(int tasks, const char *thread, struct affinity *affinity) {
    char path[32], text[STATUS_CAP], list[MAX_CPU_LIST];
    snprintf(path, sizeof path, "%.16s/status", thread);
    int fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -errno : read_again(fd, text, sizeof text);
    if (fd >= 0) close(fd);
    if (length < 0 && is_gone((int)-length)) return;
    if (length > 0 && strstr(text, "\nState:\tZ")) return; /* dead, and only not waited for */
    if (length > 0 && find_allowed(text, list)) add_list(affinity, list);
    else affinity->known = false;
}

static void read_process(pid_t pid, struct affinity *affinity) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *dir = opendir(path);
    if (!dir) {
        affinity->known &= is_gone(errno);
        return;
    }
    for (struct dirent *entry; (entry = readdir(dir));)
        if (*entry->d_name >= '1' && *entry->d_name <= '9') read_thread(dirfd(dir), entry->d_name, affinity);
    closedir(dir);
}

static int by_text(const void *left, const void *right) { return strcmp(left, right); }

void affinity_read(const struct family *family, struct affinity *affinity) {
    affinity->known = true;
    affinity->count = 0;
    for (size_t i = 0; i < family->count; i++) read_process(family->members[i].pid, affinity);
    affinity->known &= affinity->count > 0;
    qsort(affinity->lists, affinity->count, sizeof *affinity->lists, by_text);
}
