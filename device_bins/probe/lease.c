#include "lease.h"

#include "opener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char PREFIX[] = "{\"expires_boot_ns\":";

/* The text behind the first `"key":`. What a person chose stands behind all that is looked for here. */
static const char *behind(const char *text, const char *key) {
    char *quoted = must_format("\"%s\":", key);
    const char *found = strstr(text, quoted);
    if (found) found += strlen(quoted);
    free(quoted);
    return found;
}

bool lease_read(int fd, struct lease *lease) {
    char boot_id[64];
    *lease = (struct lease){0};
    ssize_t got = read_again(fd, lease->text, sizeof lease->text);
    if (got <= 0 || strncmp(lease->text, PREFIX, sizeof PREFIX - 1)) return false;
    char *end = strchr(lease->text, '\n');
    if (!end || end == lease->text || end[-1] != '}') return false;
    *end = '\0';
    const char *id = behind(lease->text, "id"), *pid = behind(lease->text, "pid"), *ttl = behind(lease->text, "ttl_ms"),
               *boot = behind(lease->text, "boot_id");
    if (!id || !pid || !ttl || !boot || *id != '"' || strcspn(id + 1, "\"") != LEASE_ID - 1) return false;
    memcpy(lease->id, id + 1, LEASE_ID - 1);
    lease->expires_ns = strtoll(lease->text + sizeof PREFIX - 1, NULL, 10);
    lease->ttl_ms = strtoll(ttl, NULL, 10);
    lease->pid = (pid_t)strtol(pid, NULL, 10);
    lease->here = *boot == '"' && read_boot_id("/proc", boot_id, sizeof boot_id, NULL) &&
                  !strncmp(boot + 1, boot_id, strlen(boot_id));
    return true;
}

bool lease_is_held(int fd, struct lease *lease) {
    return !is_unlocked(fd) && lease_read(fd, lease) && lease->here && lease->expires_ns > clock_ns(CLOCK_BOOTTIME);
}

int lease_find(const char *path, const char *id, struct lease *lease) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return fail("there is no lease in %s (%s)", path, errno_name(errno));
    bool held = lease_is_held(fd, lease);
    close(fd);
    if (!held) return fail("the lease in %s is not held by anybody: take it first", path);
    if (id && strcmp(id, lease->id)) return fail("the lease in %s is somebody else's: %s", path, lease->text);
    return 0;
}

bool lease_set_expiry(int fd, int64_t expires_ns) {
    char number[32];
    int length = snprintf(number, sizeof number, "%20lld", (long long)expires_ns);
    return pwrite(fd, number, (size_t)length, sizeof PREFIX - 1) == length;
}

/* Write over the expiry of our lease, under the lock of those who write. */
static bool change_expiry(const char *path, const struct lease *lease, bool extend) {
    struct lease now;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDWR | O_CLOEXEC);
    bool writable = fd >= 0;
    if (!writable) fd = open(path, O_RDONLY | O_CLOEXEC); /* a disk that takes nothing now does not make it not ours */
    if (fd < 0) return false;
    while (writable && fcntl(fd, F_SETLKW, &whole) && errno == EINTR) continue;
    bool ours = lease_is_held(fd, &now) && !strcmp(now.id, lease->id);
    int64_t until = extend ? clock_ns(CLOCK_BOOTTIME) + now.ttl_ms * 1000000 : 0;
    bool written = writable && ours && (until > now.expires_ns || !extend) && lease_set_expiry(fd, until);
    close(fd);
    return ours && (extend || written); /* what could not be extended now may be the next time */
}

bool lease_extend(const char *path, const struct lease *lease) { return change_expiry(path, lease, true); }

bool lease_give_back(const char *path, const struct lease *lease) { return change_expiry(path, lease, false); }
