#include "sensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

size_t find_zones(const char *sysfs, struct zone *zones, struct denied *denied) {
    int numbers[MAX_ZONES];
    char *folder = must_format("%s/class/thermal", sysfs);
    ssize_t count = list_numbered(folder, "thermal_zone", numbers, MAX_ZONES);
    if (count < 0) note_denied(denied, folder, (int)-count);
    for (ssize_t i = 0; i < count; i++) {
        char type[256];
        char *path = must_format("%s/thermal_zone%d/type", folder, numbers[i]);
        ssize_t length = read_file(path, type, sizeof type);
        if (length < 0) note_denied(denied, path, (int)-length);
        else type[strcspn(type, "\n")] = '\0';
        free(path);
        zones[i].number = numbers[i];
        zones[i].type = length < 0 ? NULL : must_format("%s", type);
        zones[i].temperature.path = must_format("%s/thermal_zone%d/temp", folder, numbers[i]);
        zones[i].temperature.fd = -1;
    }
    free(folder);
    return count > 0 ? (size_t)count : 0;
}

static struct maybe source_read(struct source *source, bool reopen, struct denied *denied) {
    char buffer[64];
    if (source->fd < 0) {
        if (source->refused || !reopen) return none();
        source->fd = open(source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (source->fd < 0) {
            note_denied(denied, source->path, errno);
            source->refused = errno == EACCES || errno == EPERM;
            return none();
        }
    }
    ssize_t length = read_again(source->fd, buffer, sizeof buffer);
    if (length >= 0) return parse_maybe(buffer);
    note_denied(denied, source->path, (int)-length);
    if (length == -ENODEV) { /* the core went off: its file is another one when it is back */
        close(source->fd);
        source->fd = -1;
    }
    return none();
}

/* Cores of one policy share a folder (by symlink), hence one device and inode. */
static void find_shared_clocks(struct sensors *sensors, const char *sysfs) {
    struct stat folders[MAX_CPUS];
    for (size_t i = 0; i < sensors->cpu_count; i++) {
        char *folder = must_format("%s/devices/system/cpu/cpu%d/cpufreq", sysfs, sensors->cpus[i]);
        bool there = !stat(folder, &folders[i]);
        sensors->same_as[i] = i;
        if (!there) folders[i].st_ino = 0;
        for (size_t j = 0; there && j < i; j++) {
            if (folders[j].st_ino != folders[i].st_ino || folders[j].st_dev != folders[i].st_dev) continue;
            sensors->same_as[i] = j;
            break;
        }
        sensors->current[i] = (struct source){must_format("%s/scaling_cur_freq", folder), -1, false};
        sensors->cap[i] = (struct source){must_format("%s/scaling_max_freq", folder), -1, false};
        free(folder);
    }
}

static void read_clocks(struct sensors *sensors, bool reopen, struct denied *denied, void (*breathe)(void *),
                        void *context) {
    for (size_t i = 0; i < sensors->cpu_count; i++) {
        size_t first = sensors->same_as[i];
        if (first != i) {
            sensors->current_khz[i] = sensors->current_khz[first];
            sensors->cap_khz[i] = sensors->cap_khz[first];
            continue;
        }
        sensors->current_khz[i] = source_read(&sensors->current[i], reopen, denied);
        sensors->cap_khz[i] = source_read(&sensors->cap[i], reopen, denied);
        if (breathe) breathe(context);
    }
}

static void read_zones(struct sensors *sensors, struct denied *denied, void (*breathe)(void *), void *context) {
    for (size_t i = 0; i < sensors->zone_count; i++) {
        sensors->milli_c[i] = source_read(&sensors->zones[i].temperature, true, denied);
        if (breathe) breathe(context);
    }
}

void sensors_find(struct sensors *sensors, const char *sysfs) {
    sensors->cpu_count = list_cpus(sysfs, sensors->cpus, &sensors->denied);
    find_shared_clocks(sensors, sysfs);
    sensors->zone_count = find_zones(sysfs, sensors->zones, &sensors->denied);
    read_clocks(sensors, true, &sensors->denied, NULL, NULL);
    read_zones(sensors, &sensors->denied, NULL, NULL);
}

void sensors_read_clocks(struct sensors *sensors, bool reopen, void (*breathe)(void *), void *context) {
    read_clocks(sensors, reopen, NULL, breathe, context);
}

void sensors_read_zones(struct sensors *sensors, void (*breathe)(void *), void *context) {
    read_zones(sensors, NULL, breathe, context);
}

void sensors_forget_zones(struct sensors *sensors) {
    for (size_t i = 0; i < sensors->zone_count; i++) sensors->milli_c[i] = none();
}
