#include "gpu.h"

#include "cpus.h"
#include "gpu_drm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_PIDS = 512, TABLE_CAP = 1 << 16 };

struct gpu_counter {
    const char *name;
    bool in_proc;      /* `path` is below /proc, not /sys */
    const char *path;
    const char *needs; /* below /sys: tried only when this is there, since debugfs refuses what it has not, too */
    const char *file;  /* in the folder of a process */
    const char *added; /* another one there that is added to it, if it can be read */
    bool (*find)(const struct gpu_counter *counter, const char *path, struct denied *denied);
    struct maybe (*measure)(const struct gpu *gpu, const struct family *family);
};

/* A folder PATH/PID/ for each process that uses the GPU. One that is there is tried: the folder may be open to all, and
 * the files in it to root alone. */
static bool find_folders(const struct gpu_counter *counter, const char *path, struct denied *denied) {
    int pids[MAX_PIDS];
    char text[64];
    ssize_t count = list_numbered(path, "", pids, MAX_PIDS);
    if (count < 0 && (count != -EACCES || access(path, X_OK))) {
        note_denied(denied, path, (int)-count);
        return false;
    }
    for (ssize_t i = 0; i < count; i++) {
        char *file = must_format("%s/%d/%s", path, pids[i], counter->file);
        ssize_t length = read_file(file, text, sizeof text);
        bool refused = length == -EACCES || length == -EPERM;
        if (refused) note_denied(denied, file, (int)-length);
        free(file);
        if (refused) return false;
        if (length > 0) return true;
    }
    return true;
}

/* A process that has no folder has not opened the GPU: that is 0, and known. */
static struct maybe measure_folders(const struct gpu *gpu, const struct family *family) {
    const struct gpu_counter *counter = gpu->counter;
    int64_t sum = 0;
    for (size_t i = 0; i < family->count; i++) {
        struct stat found;
        char *folder = must_format("%s/%d", gpu->path, (int)family->members[i].pid);
        char *file = must_format("%s/%s", folder, counter->file);
        char *added = counter->added ? must_format("%s/%s", folder, counter->added) : NULL;
        struct maybe own = read_number(file, NULL), more = added ? read_number(added, NULL) : none();
        bool absent = !own.known && stat(folder, &found) && errno == ENOENT;
        free(folder);
        free(file);
        free(added);
        if (!own.known && !absent) return none();
        sum += own.value + more.value;
    }
    return some(sum);
}

/* A table of the Mali driver while it is read, and its last row that tells the memory of a process. */
struct table {
    char *rest;
    bool pid_first;
    int64_t unit; /* bytes */
    int64_t pid, bytes;
};

static struct table begin_table(char *text) { return (struct table){.rest = text, .unit = sysconf(_SC_PAGESIZE)}; }

/* Three forms: `kctx-0x… PAGES PID` below the total of the device, `… PID PAGES` below a header with these names, and
 * `NAME PID BYTES …` below one that says `(:bytes)`. Rows without a pid are of drivers that count by context only. */
static bool next_row(struct table *table) {
    for (char *line; table->rest && (line = strsep(&table->rest, "\n"));) {
        char first[64], second[64], third[64];
        int64_t amount;
        if (sscanf(line, " %63s %63s %63s", first, second, third) != 3) continue;
        if (!strcmp(second, "(:bytes)")) table->unit = 1;
        if (!strcmp(second, "pid") || !strcmp(third, "pid")) table->pid_first = true;
        if (!table->pid_first && strncmp(first, "kctx", 4)) continue;
        if (!parse_i64(table->pid_first ? second : third, &table->pid)) continue;
        if (!parse_i64(table->pid_first ? third : second, &amount)) continue;
        if (table->pid <= 0 || amount < 0 || amount > INT64_MAX / table->unit) continue;
        table->bytes = amount * table->unit;
        return true;
    }
    return false;
}

static bool find_table(const struct gpu_counter *counter, const char *path, struct denied *denied) {
    static char text[TABLE_CAP];
    (void)counter;
    ssize_t length = read_file(path, text, sizeof text);
    if (length < 0) note_denied(denied, path, (int)-length);
    struct table table = begin_table(text);
    return length > 0 && (next_row(&table) || table.pid_first);
}

static struct maybe measure_table(const struct gpu *gpu, const struct family *family) {
    static char text[TABLE_CAP];
    int64_t sum = 0;
    if (read_file(gpu->path, text, sizeof text) < 0) return none();
    struct table table = begin_table(text);
    while (next_row(&table))
        for (size_t i = 0; i < family->count; i++)
            if (family->members[i].pid == table.pid) sum += table.bytes;
    return some(sum);
}

/* A node that renders, not one that only shows pictures. */
static bool find_drm(const struct gpu_counter *counter, const char *path, struct denied *denied) {
    int node;
    (void)counter;
    ssize_t count = list_numbered(path, "renderD", &node, 1);
    if (count < 0) note_denied(denied, path, (int)-count);
    return count > 0;
}

static struct maybe measure_drm(const struct gpu *gpu, const struct family *family) {
    /* the counter is in /proc; the path of `find_drm` only tells that there is such a driver */
    return drm_measure(gpu->procfs, family);
}

static bool find_own(const struct gpu_counter *counter, const char *path, struct denied *denied) {
    char *file = must_format("%s/self/%s", path, counter->file);
    bool found = read_number(file, denied).known;
    free(file);
    return found;
}

static const struct gpu_counter counters[] = {
    {"kgsl", false, "/class/kgsl/kgsl/proc", NULL, "kernel", "imported_mem", find_folders, measure_folders},
    {"mali_kprcs", false, "/class/misc/mali0/device/kprcs", NULL, "total_gpu_mem", NULL, find_folders, measure_folders},
    {"mali_table", true, "/mtk_mali/gpu_memory", NULL, NULL, NULL, find_table, measure_table},
    {"mali_table", true, "/mali/memory_usage", NULL, NULL, NULL, find_table, measure_table},
    {"mali_table", false, "/kernel/debug/mali0/gpu_memory", "/class/misc/mali0", NULL, NULL, find_table, measure_table},
    {"mali_table", false, "/kernel/debug/mali/gpu_memory", "/class/misc/mali", NULL, NULL, find_table, measure_table},
    {"drm_fdinfo", false, "/class/drm", NULL, NULL, NULL, find_drm, measure_drm},
    {"dmabuf_rss", true, "", NULL, "dmabuf_rss", NULL, find_own, measure_folders},
};

static bool is_there(const struct roots *roots, const char *path) {
    struct stat found;
    char *whole = must_format("%s%s", roots->sysfs, path);
    bool there = !stat(whole, &found);
    free(whole);
    return there;
}

void gpu_find(struct gpu *gpu, const struct roots *roots, struct denied *denied) {
    gpu->procfs = roots->procfs;
    for (size_t i = 0; i < sizeof counters / sizeof *counters && !gpu->counter; i++) {
        if (counters[i].needs && !is_there(roots, counters[i].needs)) continue;
        gpu->path = must_format("%s%s", counters[i].in_proc ? roots->procfs : roots->sysfs, counters[i].path);
        if (counters[i].find(&counters[i], gpu->path, denied)) gpu->counter = &counters[i];
        else free(gpu->path);
    }
}

const char *gpu_name(const struct gpu *gpu) { return gpu->counter ? gpu->counter->name : NULL; }

struct maybe gpu_measure(const struct gpu *gpu, const struct family *family) {
    return gpu->counter ? gpu->counter->measure(gpu, family) : none();
}
