#include "gpu_drm.h"

#include "cpus.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_FDS = 1024, MAX_CLIENTS = 64, NAME_CAP = 192, INFO_CAP = 8192 };

/* Descriptors that share a client, in one process or in two, tell its memory each. */
struct clients {
    size_t count;
    char names[MAX_CLIENTS][NAME_CAP];
};

static bool is_new(struct clients *clients, const char *name) {
    for (size_t i = 0; i < clients->count; i++)
        if (!strcmp(clients->names[i], name)) return false;
    if (clients->count == MAX_CLIENTS) return false;
    strcpy(clients->names[clients->count++], name);
    return true;
}

/* `123`, `123 KiB` or `123 MiB`. */
static struct maybe parse_bytes(const char *text) {
    char unit[8] = "", more[2];
    long long number;
    errno = 0;
    int found = sscanf(text, "%lld %7s %1s", &number, unit, more);
    int shift = !strcmp(unit, "KiB") ? 10 : !strcmp(unit, "MiB") ? 20 : !strcmp(unit, "GiB") ? 30 : 0;
    if (found < 1 || found > 2 || (found == 2 && !shift) || errno || number < 0 || number > (INT64_MAX >> 31)) return none();
    return some(number << shift);
}

/* What follows a key with this prefix: the region, and behind its colon the value. */
static const char *value_of(const char *line, const char *prefix) {
    if (strncmp(line, prefix, strlen(prefix))) return NULL;
    const char *colon = strchr(line, ':');
    return colon ? colon + 1 + strspn(colon + 1, " \t") : NULL;
}

static void add_value(struct maybe *sum, const char *text) {
    struct maybe value = text ? parse_bytes(text) : none();
    if (value.known) *sum = some((sum->known ? sum->value : 0) + value.value);
}

/* One client's memory in all regions. What is resident counts; drm-memory-* is its older name, and the drivers that have
 * neither tell the size of all buffers. */
static struct maybe read_client(char *text, struct clients *clients, const char *fallback_name) {
    struct maybe resident = none(), memory = none(), total = none();
    char driver[64] = "", device[64] = "", id[32] = "", name[NAME_CAP];
    for (char *line, *rest = text; rest && (line = strsep(&rest, "\n"));) {
        (void)sscanf(line, "drm-driver: %63s", driver);
        (void)sscanf(line, "drm-pdev: %63s", device);
        (void)sscanf(line, "drm-client-id: %31s", id);
        add_value(&resident, value_of(line, "drm-resident-"));
        add_value(&memory, value_of(line, "drm-memory-"));
        /* drm-total-cycles-* and drm-total-busy-* are times */
        if (strncmp(line, "drm-total-cycles", 16) && strncmp(line, "drm-total-busy", 14))
            add_value(&total, value_of(line, "drm-total-"));
    }
    struct maybe bytes = resident.known ? resident : memory.known ? memory : total;
    if (*id) snprintf(name, sizeof name, "%s %s %s", driver, device, id);
    else snprintf(name, sizeof name, "%s", fallback_name);
    return bytes.known && is_new(clients, name) ? bytes : none();
}

static void measure_process(const char *folder, struct clients *clients, struct maybe *sum) {
    int fds[MAX_FDS];
    char *list = must_format("%s/fd", folder);
    ssize_t count = list_numbered(list, "", fds, MAX_FDS);
    for (ssize_t i = 0; i < count; i++) {
        static char text[INFO_CAP];
        char target[128], *link = must_format("%s/%d", list, fds[i]);
        char *info = must_format("%s/fdinfo/%d", folder, fds[i]);
        ssize_t length = readlink(link, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        if (strstr(target, "/dri/") && read_file(info, text, sizeof text) > 0) {
            struct maybe bytes = read_client(text, clients, info);
            if (bytes.known) *sum = some((sum->known ? sum->value : 0) + bytes.value);
        }
        free(link);
        free(info);
    }
    free(list);
}

struct maybe drm_measure(const char *procfs, const struct family *family) {
    static struct clients clients;
    struct maybe sum = none();
    clients.count = 0;
    for (size_t i = 0; i < family->count; i++) {
        char *folder = must_format("%s/%d", procfs, (int)family->members[i].pid);
        measure_process(folder, &clients, &sum);
        free(folder);
    }
    return sum;
}
