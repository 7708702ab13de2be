/* probe lease, lease-show, lease-extend and lease-end. */
#include "detach.h"
#include "json.h"
#include "lease.h"
#include "opener.h"
#include "util.h"
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum {
    TAKE_TRIES = 20, /* a holder at its expiry, or somebody who only looks, is gone in a moment */
    TRY_EVERY_MS = 20,
    END_PATIENCE_MS = 5000
};

struct wish {
    const char *path, *owner, *host, *purpose;
    int64_t ttl_s;
    bool attached;
};

static int say(struct json *json) {
    json_close(json, '}');
    json_newline(json);
    return json_print(json) ? 0 : fail("stdout is closed");
}

static void put_record(struct json *json, const char *key, const struct lease *lease) {
    struct json text = {.data = (char *)lease->text, .length = strlen(lease->text)};
    json_key(json, key);
    json_raw(json, &text);
}

static void put_lease(struct json *json, const char *key, const struct lease *lease) {
    int64_t left = lease->expires_ns - clock_ns(CLOCK_BOOTTIME);
    json_key(json, "remaining_ms");
    json_int(json, left > 0 ? left / 1000000 : 0);
    put_record(json, key, lease);
}

static void begin(struct json *json, const char *state) {
    json_open(json, '{');
    json_key(json, "lease");
    json_text(json, state);
}

static int refuse(int fd) {
    struct json json = {0};
    struct lease holder;
    bool known = lease_read(fd, &holder);
    begin(&json, "held");
    if (known) put_lease(&json, "holder", &holder);
    (void)say(&json);
    return 1;
}

static bool write_record(int fd, const struct wish *wish, struct lease *lease) {
    unsigned char random[(LEASE_ID - 1) / 2];
    char boot_id[64];
    struct json json = {0};
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (getrandom(random, sizeof random, 0) != sizeof random) return false;
    for (size_t i = 0; i < sizeof random; i++) snprintf(lease->id + 2 * i, 3, "%02x", random[i]);
    bool booted = read_boot_id("/proc", boot_id, sizeof boot_id, NULL);
    int64_t now = clock_ns(CLOCK_BOOTTIME);
    char *expiry = must_format("{\"expires_boot_ns\":%20lld", (long long)(now + wish->ttl_s * 1000000000));
    json_raw(&json, &(struct json){.data = expiry, .length = strlen(expiry)});
    free(expiry);
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"ttl_ms", wish->ttl_s * 1000}, {"pid", getpid()}, {"taken_boot_ns", now}};
    const char *texts[][2] = {{"id", lease->id},        {"boot_id", booted ? boot_id : NULL}, {"owner", wish->owner},
                              {"host", wish->host},     {"purpose", wish->purpose}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        json_key(&json, numbers[i].key);
        json_int(&json, numbers[i].value);
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_key(&json, texts[i][0]);
        json_text(&json, texts[i][1]);
    }
    json_close(&json, '}');
    json_newline(&json);
    while (fcntl(fd, F_SETLKW, &whole) && errno == EINTR) continue;
    bool good = json.length < LEASE_TEXT && pwrite(fd, json.data, json.length, 0) == (ssize_t)json.length &&
                !ftruncate(fd, (off_t)json.length);
    whole.l_type = F_UNLCK;
    (void)fcntl(fd, F_SETLK, &whole);
    free(json.data);
    return good && lease_read(fd, lease);
}

/* Sleep until the expiry, which a run may have moved meanwhile; or until stdin ends, if that counts. */
static void keep(int fd, bool attached, struct lease *lease) {
    int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
    while (lease_read(fd, lease) && lease->expires_ns > clock_ns(CLOCK_BOOTTIME)) {
        struct itimerspec at = {.it_value = {.tv_sec = (time_t)(lease->expires_ns / 1000000000),
                                             .tv_nsec = (long)(lease->expires_ns % 1000000000)}};
        (void)timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
        struct pollfd fds[2] = {{.fd = timer, .events = POLLIN}, {.fd = attached ? STDIN_FILENO : -1, .events = POLLIN}};
        char ignored[256];
        if (poll(fds, 2, timer < 0 ? 1000 : -1) < 0 && errno != EINTR) return;
        if (fds[1].revents && read(STDIN_FILENO, ignored, sizeof ignored) <= 0 && errno != EINTR) return;
    }
}

static int take(const struct wish *wish) {
    struct timespec pause = {.tv_nsec = TRY_EVERY_MS * 1000000};
    struct json json = {0};
    struct lease lease, before;
    if (!wish->attached) detach(-1);
    char *slash = strrchr(wish->path, '/');
    char *folder = must_format("%.*s", slash ? (int)(slash - wish->path) : 0, wish->path);
    if (*folder) (void)make_folders(folder); /* the open below tells */
    free(folder);
    int fd = open(wish->path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return fail("cannot make %s (%s)", wish->path, errno_name(errno));
    for (int tries = 1; flock(fd, LOCK_EX | LOCK_NB); tries++) {
        bool busy = errno == EWOULDBLOCK || errno == EINTR;
        if (!busy) return fail("cannot lock %s (%s)", wish->path, errno_name(errno));
        if (lease_is_held(fd, &lease) || tries == TAKE_TRIES) return refuse(fd);
        (void)nanosleep(&pause, NULL);
    }
    /* whoever gave it back left an expiry of 0; what else stands there was lost by its owner */
    bool lost = lease_read(fd, &before) && before.expires_ns;
    if (!write_record(fd, wish, &lease)) return fail("cannot write %s (%s)", wish->path, errno_name(errno));
    begin(&json, "taken");
    put_lease(&json, "holder", &lease);
    if (lost) put_record(&json, "previous", &before);
    int wrong = say(&json);
    if (wrong) return wrong;
    if (!wish->attached) detach_done();
    keep(fd, wish->attached, &lease);
    return 0;
}

int verb_lease(int count, char **words) {
    struct wish wish = {0};
    for (int at = 0; at < count; at++) {
        const char *option = words[at];
        if (!strcmp(option, "--attached")) {
            wish.attached = true;
        } else if (!strncmp(option, "--", 2)) {
            const char *value = option_value(count, words, &at);
            if (!value) return 2;
            if (!strcmp(option, "--owner")) wish.owner = value;
            else if (!strcmp(option, "--host")) wish.host = value;
            else if (!strcmp(option, "--purpose")) wish.purpose = value;
            else if (strcmp(option, "--ttl")) return misuse("lease knows --owner, --host, --purpose, --ttl, --attached; got %s", option);
            else if (!parse_i64(value, &wish.ttl_s) || wish.ttl_s < 1 || wish.ttl_s > 86400 * 7)
                return misuse("--ttl takes whole seconds from 1 to %d; got %s", 86400 * 7, value);
        } else if (wish.path) {
            return misuse("lease takes one FILE; got %s", option);
        } else {
            wish.path = option;
        }
    }
    if (!wish.path || !wish.owner || !wish.host || !wish.purpose || !wish.ttl_s)
        return misuse("lease needs FILE, --owner, --host, --purpose and --ttl");
    if (strlen(wish.owner) + strlen(wish.host) + strlen(wish.purpose) > 400)
        return misuse("owner, host and purpose are too long: 400 bytes together are enough");
    return take(&wish);
}

int verb_lease_show(int count, char **words) {
    struct json json = {0};
    struct lease lease;
    if (count != 1) return misuse("lease-show takes FILE and nothing else");
    int fd = open(words[0], O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno != ENOENT) return fail("cannot read %s (%s)", words[0], errno_name(errno));
    bool held = fd >= 0 && lease_is_held(fd, &lease);
    begin(&json, held ? "held" : "free");
    if (held) put_lease(&json, "holder", &lease);
    else if (fd >= 0 && lease_read(fd, &lease) && lease.expires_ns) put_record(&json, "previous", &lease);
    return say(&json);
}

/* FILE --id ID, opened; or an exit status below zero, after a sentence on stderr. */
static int open_own(const char *verb, int count, char **words) {
    if (count != 3 || strcmp(words[1], "--id")) return -misuse("%s takes FILE --id ID", verb);
    int fd = open(words[0], O_RDWR | O_CLOEXEC);
    return fd < 0 ? -fail("there is no lease in %s (%s)", words[0], errno_name(errno)) : fd;
}

int verb_lease_extend(int count, char **words) {
    struct json json = {0};
    struct lease lease = {0};
    int fd = open_own("lease-extend", count, words);
    if (fd < 0) return -fd;
    snprintf(lease.id, sizeof lease.id, "%s", words[2]);
    bool ours = strlen(words[2]) == LEASE_ID - 1 && lease_extend(words[0], &lease);
    if (!lease_is_held(fd, &lease)) {
        begin(&json, "free");
        (void)say(&json);
        return 1;
    }
    if (!ours) return refuse(fd);
    begin(&json, "taken");
    put_lease(&json, "holder", &lease);
    return say(&json);
}

int verb_lease_end(int count, char **words) {
    struct json json = {0};
    struct lease lease;
    int fd = open_own("lease-end", count, words);
    if (fd < 0) return -fd;
    if (lease_is_held(fd, &lease)) {
        if (strcmp(lease.id, words[2])) return refuse(fd);
        if (!lease_give_back(words[0], &lease)) return fail("cannot write %s", words[0]);
        (void)end_opener(lease.pid, fd);
        if (!await_unlocked(fd, END_PATIENCE_MS)) return fail("the holder of %s does not end", words[0]);
    }
    begin(&json, "free");
    return say(&json);
}
