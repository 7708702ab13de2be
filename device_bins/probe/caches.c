#include "caches.h"

#include "cpus.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CACHES = 16, TEXT_CAP = 64 };

/* The text of FOLDER/indexN/FILE; false when it is not told, which is noted when it was refused. */
static bool read_about(const char *folder, int index, const char *file, char *text, struct denied *denied) {
    char *path = must_format("%s/index%d/%s", folder, index, file);
    ssize_t length = read_file(path, text, TEXT_CAP);
    if (length < 0) note_denied(denied, path, (int)-length);
    free(path);
    return length > 0;
}

/* `512K` as the kernel writes it; it may write other units one day. */
static struct maybe parse_size(const char *text) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
    end += shift != 0;
    if (errno || end == text || number <= 0 || number > (INT64_MAX >> 31) || *(end + strspn(end, " \n"))) return none();
    return some(number << shift);
}

/* Returns false when a size is not told. */
static bool add_caches(const char *folder, const int *indexes, size_t count, int64_t *bytes, struct denied *denied) {
    char text[TEXT_CAP];
    for (size_t i = 0; i < count; i++) {
        if (!read_about(folder, indexes[i], "type", text, denied)) return false;
        if (!strncmp(text, "Instruction", 11)) continue;
        if (!read_about(folder, indexes[i], "level", text, denied)) return false;
        struct maybe level = parse_maybe(text);
        if (level.known && level.value < 2) continue;
        struct maybe size = read_about(folder, indexes[i], "size", text, denied) ? parse_size(text) : none();
        if (!level.known || !size.known) return false;
        *bytes += size.value;
    }
    return true;
}

struct maybe last_level_bytes(const char *sysfs, const int *cpus, size_t count, struct denied *denied) {
    int64_t most = 0;
    bool told = true;
    for (size_t i = 0; i < count && told; i++) {
        int indexes[MAX_CACHES];
        int64_t bytes = 0;
        char *folder = must_format("%s/devices/system/cpu/cpu%d/cache", sysfs, cpus[i]);
        ssize_t found = list_numbered(folder, "index", indexes, MAX_CACHES);
        if (found < 0) note_denied(denied, folder, (int)-found);
        /* a core that is off has no such folder, and is like others that are on */
        if (found > 0) told = add_caches(folder, indexes, (size_t)found, &bytes, denied);
        else told = found == 0 || found == -ENOENT;
        free(folder);
        if (bytes > most) most = bytes;
    }
    return told && most ? some(most) : none();
}
