#include "files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct teller {
    tell_file *tell;
    void *context;
    struct json line;
    bool failed;
    bool broken; /* stdout is closed */
};

static void begin_line(struct teller *teller, const char *path) {
    json_open(&teller->line, '{');
    json_key(&teller->line, "path");
    json_text(&teller->line, path);
}

static void end_line(struct teller *teller) {
    json_close(&teller->line, '}');
    json_newline(&teller->line);
    teller->broken |= !json_print(&teller->line);
}

static void report_error(struct teller *teller, const char *path, int error) {
    teller->failed = true;
    json_reset(&teller->line);
    begin_line(teller, path);
    json_key(&teller->line, "error");
    json_text(&teller->line, errno_name(error));
    end_line(teller);
}

static void report_link(struct teller *teller, const char *path) {
    begin_line(teller, path);
    json_key(&teller->line, "symlink");
    json_bool(&teller->line, true);
    end_line(teller);
}

/* A pipe or a device has no content to tell of. */
static int check_regular(int fd) {
    struct stat found;
    if (fstat(fd, &found)) return errno;
    return S_ISDIR(found.st_mode) ? EISDIR : S_ISREG(found.st_mode) ? 0 : EINVAL;
}

/* Tell of what `at`/`path` names, by that path. */
static void report_file(struct teller *teller, int at, const char *path, int flags) {
    begin_line(teller, path);
    int fd = openat(at, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    int error = fd < 0 ? errno : check_regular(fd);
    if (!error) error = teller->tell(teller->context, fd, path, &teller->line);
    if (fd >= 0) close(fd);
    if (error) report_error(teller, path, error);
    else end_line(teller);
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

static void report_tree(struct teller *teller, const char *folder) {
    struct entries entries = {0};
    int root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0) {
        report_error(teller, folder, errno);
        return;
    }
    collect(&entries, root, must_format("%s", ""));
    if (entries.count) qsort(entries.items, entries.count, sizeof *entries.items, by_path);
    for (size_t i = 0; i < entries.count && !teller->broken; i++) {
        const struct entry *entry = &entries.items[i];
        if (entry->error) report_error(teller, entry->path, entry->error);
        else if (entry->symlink) report_link(teller, entry->path);
        else report_file(teller, root, entry->path, O_NOFOLLOW);
    }
    close(root);
}

int tell_files(tell_file *tell, void *context, const char *tree, int count, char **paths) {
    struct teller teller = {.tell = tell, .context = context};
    if (tree) report_tree(&teller, tree);
    for (int at = 0; at < count && !teller.broken; at++) report_file(&teller, AT_FDCWD, paths[at], 0);
    if (teller.broken) return fail("stdout is closed");
    return teller.failed ? 1 : 0;
}
