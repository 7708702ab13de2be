#include "cpus.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t parse_cpu_list(const char *text, int *numbers) {
    size_t count = 0;
    while (*text) {
        text += strspn(text, " ,\t\r\n");
        if (*text < '0' || *text > '9') break;
        char *end;
        long first = strtol(text, &end, 10), last = first;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        for (long cpu = first; cpu >= 0 && cpu <= last && cpu < 65536 && count < MAX_CPUS; cpu++)
            numbers[count++] = (int)cpu;
        text = end;
    }
    return count;
}

static int by_number(const void *left, const void *right) {
    int a = *(const int *)left, b = *(const int *)right;
    return (a > b) - (a < b);
}

ssize_t list_numbered(const char *folder, const char *prefix, int *numbers, size_t cap) {
    DIR *dir = opendir(folder);
    if (!dir) return -errno;
    size_t count = 0, skip = strlen(prefix);
    for (struct dirent *entry; (entry = readdir(dir)) && count < cap;) {
        const char *digits = entry->d_name + skip;
        if (strncmp(entry->d_name, prefix, skip) || strspn(digits, "0123456789") != strlen(digits)) continue;
        int64_t number;
        if (parse_i64(digits, &number) && number < 65536) numbers[count++] = (int)number;
    }
    closedir(dir);
    qsort(numbers, count, sizeof *numbers, by_number);
    return (ssize_t)count;
}

size_t list_cpus(const char *sysfs, int *numbers, struct denied *denied) {
    static const char *const lists[] = {"present", "possible"};
    char buffer[1024];
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char *path = must_format("%s/devices/system/cpu/%s", sysfs, lists[i]);
        ssize_t length = read_file(path, buffer, sizeof buffer);
        if (length < 0) note_denied(denied, path, (int)-length);
        free(path);
        size_t count = length > 0 ? parse_cpu_list(buffer, numbers) : 0;
        if (count) return count;
    }
    char *folder = must_format("%s/devices/system/cpu", sysfs);
    ssize_t count = list_numbered(folder, "cpu", numbers, MAX_CPUS);
    if (count < 0) note_denied(denied, folder, (int)-count);
    free(folder);
    return count > 0 ? (size_t)count : 0;
}

/* Copy one word that looks like `0x41`; anything else stays unknown. */
static void copy_hex(char *name, const char *value) {
    size_t length = strspn(value, "0123456789abcdefABCDEFx");
    if (length < 3 || length >= MAX_NAME || strncmp(value, "0x", 2)) return;
    memcpy(name, value, length);
    name[length] = '\0';
}

/* An offline core is not in /proc/cpuinfo, but may still have its identification register in sysfs. */
static void read_midr(const char *sysfs, int cpu, struct cpu_ident *ident, struct denied *denied) {
    char buffer[64];
    char *path = must_format("%s/devices/system/cpu/cpu%d/regs/identification/midr_el1", sysfs, cpu);
    ssize_t length = read_file(path, buffer, sizeof buffer);
    if (length < 0) note_denied(denied, path, (int)-length);
    free(path);
    unsigned long long midr = length > 0 ? strtoull(buffer, NULL, 16) : 0;
    if (!midr) return;
    snprintf(ident->implementer, MAX_NAME, "0x%02x", (unsigned)(midr >> 24) & 0xff);
    snprintf(ident->part, MAX_NAME, "0x%03x", (unsigned)(midr >> 4) & 0xfff);
}

static char *read_whole(const char *path, struct denied *denied) {
    size_t cap = 65536;
    char *text = NULL;
    for (;;) {
        text = must_realloc(text, cap);
        ssize_t length = read_file(path, text, cap);
        if (length < 0) {
            note_denied(denied, path, (int)-length);
            free(text);
            return NULL;
        }
        if ((size_t)length + 1 < cap || cap >= (4u << 20)) return text;
        cap *= 4;
    }
}

void read_cpuinfo(const struct roots *roots, const int *cpus, size_t count, struct cpu_ident *idents, char **features,
                  struct denied *denied) {
    char *path = must_format("%s/cpuinfo", roots->procfs);
    char *text = read_whole(path, denied);
    free(path);
    *features = NULL;
    struct cpu_ident *current = NULL;
    bool bare = false, shared = false; /* old kernels list all processors first and then one core's part for all */
    char *rest = text;
    for (char *line; rest && (line = strsep(&rest, "\n"));) {
        char *value = strchr(line, ':');
        if (!value) {
            current = NULL;
            bare = false;
            continue;
        }
        size_t key = (size_t)(value - line);
        while (key && (line[key - 1] == '\t' || line[key - 1] == ' ')) key--;
        line[key] = '\0';
        value++;
        value += strspn(value, " \t");
        int64_t number;
        if (!strcmp(line, "processor") && parse_i64(value, &number)) {
            shared = shared || bare;
            bare = true;
            current = NULL;
            for (size_t i = 0; i < count; i++)
                if (cpus[i] == number) current = &idents[i];
            continue;
        }
        bare = false;
        if (!strcmp(line, "CPU implementer") && current) copy_hex(current->implementer, value);
        if (!strcmp(line, "CPU part") && current) copy_hex(current->part, value);
        if (!*features && (!strcmp(line, "Features") || !strcmp(line, "flags"))) *features = must_format("%s", value);
    }
    free(text);
    for (size_t i = 0; i < count; i++) {
        if (shared) idents[i] = (struct cpu_ident){0};
        if (!idents[i].part[0]) read_midr(roots->sysfs, cpus[i], &idents[i], denied);
    }
}
