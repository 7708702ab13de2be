/* probe facts: what this phone is, in one JSON object. */
#include "caches.h"
#include "cpus.h"
#include "features.h"
#include "json.h"
#include "sensors.h"
#include "util.h"
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

struct core {
    struct maybe max_khz, min_khz, scaling_max_khz;
    struct maybe online; /* 0 or 1 */
    int policy;          /* lowest core of its clock group, -1 unknown */
    size_t cluster;
};

enum { NO_CLUSTER = MAX_CPUS };

static size_t read_list(const char *path, int *numbers, struct denied *denied) {
    char buffer[1024];
    ssize_t length = read_file(path, buffer, sizeof buffer);
    if (length < 0) note_denied(denied, path, (int)-length);
    return length > 0 ? parse_cpu_list(buffer, numbers) : 0;
}

static struct maybe cpu_number(const char *sysfs, int cpu, const char *file, struct denied *denied) {
    char *path = must_format("%s/devices/system/cpu/cpu%d/%s", sysfs, cpu, file);
    struct maybe value = read_number(path, denied);
    free(path);
    return value;
}

static void read_online(const char *sysfs, const int *cpus, size_t count, struct core *cores, struct denied *denied) {
    int numbers[MAX_CPUS];
    char *path = must_format("%s/devices/system/cpu/online", sysfs);
    size_t online = read_list(path, numbers, denied);
    free(path);
    for (size_t i = 0; i < count; i++) {
        cores[i].online = online ? some(0) : cpu_number(sysfs, cpus[i], "online", denied);
        for (size_t j = 0; j < online; j++)
            if (numbers[j] == cpus[i]) cores[i].online = some(1);
    }
}

/* Which cores share a clock, told by any readable one of them: an offline core has no folder of its own. */
static void read_policies(const char *sysfs, const int *cpus, size_t count, struct core *cores, struct denied *denied) {
    int related[MAX_CPUS];
    for (size_t i = 0; i < count; i++) cores[i].policy = -1;
    for (size_t i = 0; i < count; i++) {
        char *path = must_format("%s/devices/system/cpu/cpu%d/cpufreq/related_cpus", sysfs, cpus[i]);
        size_t found = read_list(path, related, denied);
        free(path);
        for (size_t j = 0; j < found; j++)
            for (size_t k = 0; k < count; k++)
                if (cpus[k] == related[j]) cores[k].policy = related[0];
    }
}

static bool same_part(const struct cpu_ident *a, const struct cpu_ident *b) {
    return !strcmp(a->part, b->part) && !strcmp(a->implementer, b->implementer);
}

/* Does core `b`, already in a cluster, take core `a` in? Equal top clocks of different parts are different clusters. */
static bool belong_together(const struct core *a, const struct cpu_ident *part_a, const struct core *b,
                            const struct cpu_ident *part_b) {
    if (a->max_khz.known && b->max_khz.known)
        return a->max_khz.value == b->max_khz.value &&
               (!part_a->part[0] || !part_b->part[0] || same_part(part_a, part_b));
    if (a->policy >= 0 && b->policy >= 0) return a->policy == b->policy;
    bool clockless = !a->max_khz.known && !b->max_khz.known;
    return same_part(part_a, part_b) && (part_a->part[0] || clockless);
}

static void put_clusters(struct json *json, const int *cpus, size_t count, struct core *cores,
                         const struct cpu_ident *idents) {
    for (size_t i = 0; i < count; i++) cores[i].cluster = NO_CLUSTER;
    /* cores with a clock first: they decide what the rest can join */
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < count; i++) {
            if (cores[i].cluster != NO_CLUSTER || (pass == 0 && !cores[i].max_khz.known)) continue;
            cores[i].cluster = i;
            for (size_t j = 0; j < count && cores[i].cluster == i; j++)
                if (j != i && cores[j].cluster == j && belong_together(&cores[i], &idents[i], &cores[j], &idents[j]))
                    cores[i].cluster = j;
        }
    json_key(json, "clusters");
    json_open(json, '[');
    bool done[MAX_CPUS] = {false};
    for (size_t i = 0; i < count; i++) {
        if (done[i]) continue;
        json_item(json);
        json_open(json, '[');
        for (size_t j = i; j < count; j++) {
            if (cores[j].cluster != cores[i].cluster) continue;
            done[j] = true;
            json_item(json);
            json_int(json, cpus[j]);
        }
        json_close(json, ']');
    }
    json_close(json, ']');
}

static void put_cores(struct json *json, const struct roots *roots, struct denied *denied) {
    int cpus[MAX_CPUS];
    struct core cores[MAX_CPUS];
    static struct cpu_ident idents[MAX_CPUS];
    char *features;
    bool readable = false;
    size_t count = list_cpus(roots->sysfs, cpus, denied);
    read_cpuinfo(roots, cpus, count, idents, &features, denied);
    read_online(roots->sysfs, cpus, count, cores, denied);
    read_policies(roots->sysfs, cpus, count, cores, denied);
    json_key(json, "cores");
    json_open(json, '[');
    for (size_t i = 0; i < count; i++) {
        cores[i].max_khz = cpu_number(roots->sysfs, cpus[i], "cpufreq/cpuinfo_max_freq", denied);
        cores[i].min_khz = cpu_number(roots->sysfs, cpus[i], "cpufreq/cpuinfo_min_freq", denied);
        cores[i].scaling_max_khz = cpu_number(roots->sysfs, cpus[i], "cpufreq/scaling_max_freq", denied);
        readable |= cpu_number(roots->sysfs, cpus[i], "cpufreq/scaling_cur_freq", denied).known;
        json_item(json);
        json_open(json, '{');
        json_key(json, "cpu");
        json_int(json, cpus[i]);
        json_key(json, "implementer");
        json_text(json, idents[i].implementer[0] ? idents[i].implementer : NULL);
        json_key(json, "part");
        json_text(json, idents[i].part[0] ? idents[i].part : NULL);
        json_key(json, "max_khz");
        json_maybe(json, cores[i].max_khz);
        json_key(json, "min_khz");
        json_maybe(json, cores[i].min_khz);
        json_key(json, "scaling_max_khz");
        json_maybe(json, cores[i].scaling_max_khz);
        json_key(json, "online");
        if (cores[i].online.known) json_bool(json, cores[i].online.value != 0);
        else json_null(json);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_key(json, "llc_bytes");
    json_maybe(json, last_level_bytes(roots->sysfs, cpus, count, denied));
    put_clusters(json, cpus, count, cores, idents);
    json_key(json, "features");
    put_features(json, features);
    json_key(json, "clocks_readable");
    json_bool(json, readable);
    free(features);
}

static void put_memory(struct json *json, const char *procfs, struct denied *denied) {
    static char text[16384];
    static const char *const names[][2] = {{"mem_total_bytes", "MemTotal"},
                                           {"mem_available_bytes", "MemAvailable"},
                                           {"swap_total_bytes", "SwapTotal"}};
    char *path = must_format("%s/meminfo", procfs);
    ssize_t length = read_file(path, text, sizeof text);
    if (length < 0) {
        note_denied(denied, path, (int)-length);
        text[0] = '\0';
    }
    free(path);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_key(json, names[i][0]);
        json_maybe(json, find_field(text, names[i][1], 1024));
    }
}

static void put_zones(struct json *json, const char *sysfs, struct denied *denied) {
    static struct zone zones[MAX_ZONES];
    size_t count = find_zones(sysfs, zones, denied);
    json_key(json, "zones");
    json_open(json, '[');
    for (size_t i = 0; i < count; i++) {
        json_item(json);
        json_open(json, '{');
        json_key(json, "zone");
        json_int(json, zones[i].number);
        json_key(json, "type");
        json_text(json, zones[i].type);
        json_key(json, "milli_c");
        json_maybe(json, read_number(zones[i].temperature.path, denied));
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void put_exists(struct json *json, const char *path) {
    struct stat found;
    json_key_bytes(json, path);
    if (!stat(path, &found)) json_bool(json, true);
    else if (errno == ENOENT || errno == ENOTDIR) json_bool(json, false);
    else json_null(json);
}

static void put_system(struct json *json, const char *procfs, struct denied *denied) {
    struct utsname name;
    char boot_id[64];
    bool named = !uname(&name);
    json_key(json, "probe");
    json_int(json, 1);
    json_key(json, "kernel");
    json_text(json, named ? name.release : NULL);
    json_key(json, "machine");
    json_text(json, named ? name.machine : NULL);
    json_key(json, "page_size");
    json_int(json, sysconf(_SC_PAGESIZE));
    json_key(json, "boot_id");
    bool known = read_boot_id(procfs, boot_id, sizeof boot_id, denied);
    json_text(json, known ? boot_id : NULL);
    json_key(json, "uptime_ms");
    json_int(json, clock_ns(CLOCK_BOOTTIME) / 1000000);
}

int verb_facts(int count, char **words) {
    struct roots roots = {"/sys", "/proc"};
    struct denied denied = {0};
    struct json exists = {0}, json = {0};
    json_open(&exists, '{');
    for (int i = 0; i < count; i++) {
        const char *option = words[i];
        bool sysfs = !strcmp(option, "--sysfs"), procfs = !strcmp(option, "--procfs");
        if (!sysfs && !procfs && strcmp(option, "--exists"))
            return misuse("facts knows --sysfs, --procfs and --exists; got %s", option);
        const char *value = option_value(count, words, &i);
        if (!value) return 2;
        if (sysfs) roots.sysfs = value;
        else if (procfs) roots.procfs = value;
        else put_exists(&exists, value);
    }
    json_close(&exists, '}');
    json_open(&json, '{');
    put_system(&json, roots.procfs, &denied);
    put_cores(&json, &roots, &denied);
    put_memory(&json, roots.procfs, &denied);
    put_zones(&json, roots.sysfs, &denied);
    json_denied(&json, &denied);
    json_key(&json, "exists");
    json_raw(&json, &exists);
    json_close(&json, '}');
    json_newline(&json);
    return json_print(&json) ? 0 : fail("stdout is closed");
}
