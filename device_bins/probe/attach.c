/* probe attach and probe stop: a run that somebody else started, found by its folder. */
#include "json.h"
#include "opener.h"
#include "util.h"
#include "verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PIECE = 65536,
    LOOK_EVERY_MS = 200, /* the file tells by itself that it grew; this is for a probe that was killed */
    STOP_PATIENCE_MS = 10000,
    LAST = 8192 /* the end event is shorter */
};

static const char END[] = "{\"ev\":\"end\"";

static int open_events(const char *folder) {
    char *path = must_format("%s/events.jsonl", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    return fd;
}

/* Append what the file has from `from` on. Zeros are reserved room, not content. */
static bool read_more(int fd, off_t from, struct json *text) {
    json_reserve(text, PIECE);
    ssize_t got;
    do got = pread(fd, text->data + text->length, PIECE, from);
    while (got < 0 && errno == EINTR);
    if (got <= 0) return false;
    const char *zero = memchr(text->data + text->length, 0, (size_t)got);
    size_t count = zero ? (size_t)(zero - text->data) - text->length : (size_t)got;
    text->length += count;
    return count > 0;
}

static bool is_end(const char *line, size_t length) {
    return length >= sizeof END - 1 && !memcmp(line, END, sizeof END - 1);
}

/* Print the whole lines, up to the end event if it is there, and keep the rest. */
static bool print_lines(struct json *text, bool *ended) {
    struct json lines = {0};
    size_t at = 0;
    for (char *stop; !*ended && at < text->length && (stop = memchr(text->data + at, '\n', text->length - at));) {
        size_t next = (size_t)(stop - text->data) + 1;
        *ended = is_end(text->data + at, next - at);
        at = next;
    }
    if (!at) return true;
    lines.data = text->data;
    lines.length = at;
    bool good = json_print(&lines);
    memmove(text->data, text->data + at, text->length - at);
    text->length -= at;
    return good;
}

static bool reader_left(int watch) {
    char news[4096];
    struct pollfd fds[2] = {{.fd = watch, .events = POLLIN}, {.fd = STDOUT_FILENO, .events = 0}};
    if (poll(fds, 2, LOOK_EVERY_MS) <= 0) return false;
    if (fds[0].revents && read(watch, news, sizeof news) < 0) return errno != EAGAIN && errno != EINTR;
    return fds[1].revents != 0;
}

static int stream(int fd, off_t from, int watch, const char *folder) {
    struct json text = {0};
    for (bool ended = false; !ended;) {
        bool dead = is_unlocked(fd); /* asked before reading: what a dead probe wrote is all there then */
        size_t had = text.length;
        bool more = read_more(fd, from, &text);
        from += (off_t)(text.length - had);
        if (!print_lines(&text, &ended)) return fail("nobody reads the events");
        if (ended || more) continue;
        if (dead) return fail("the run in %s has no end: its probe was killed", folder);
        if (reader_left(watch)) return fail("nobody reads the events");
    }
    return 0;
}

/* May a stream begin here? Only the start of a line is one that a reader can go on from. */
static int check_offset(int fd, int64_t from) {
    struct stat file;
    char before = '\n';
    if (fstat(fd, &file)) return fail("cannot look at the events (%s)", errno_name(errno));
    if (from > file.st_size)
        return fail("offset %lld is past the end of the events (%lld bytes)", (long long)from, (long long)file.st_size);
    if (from > 0 && pread(fd, &before, 1, (off_t)from - 1) != 1) return fail("cannot read the events");
    if (before != '\n') return fail("offset %lld is not at the start of a line", (long long)from);
    return 0;
}

int verb_attach(int count, char **words) {
    const char *folder = NULL;
    int64_t from = 0;
    for (int at = 0; at < count; at++) {
        if (!strcmp(words[at], "--from")) {
            const char *value = option_value(count, words, &at);
            if (!value) return 2;
            if (!parse_i64(value, &from) || from < 0) return misuse("--from takes a byte offset; got %s", value);
        } else if (folder || !strncmp(words[at], "--", 2)) {
            return misuse("attach takes DIR and --from OFFSET; got %s", words[at]);
        } else {
            folder = words[at];
        }
    }
    if (!folder) return misuse("attach needs the folder of a run");
    int fd = open_events(folder);
    if (fd < 0) return fail("there is no run in %s (%s)", folder, errno_name(errno));
    int wrong = check_offset(fd, from);
    if (wrong) return wrong;
    signal(SIGPIPE, SIG_IGN);
    int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    char *path = must_format("%s/events.jsonl", folder);
    if (watch >= 0) (void)inotify_add_watch(watch, path, IN_MODIFY | IN_CLOSE_WRITE);
    free(path);
    return stream(fd, (off_t)from, watch, folder);
}

/* The number behind the first `"probe_pid":`, which is in the first line before anything that others chose. */
static pid_t probe_of(int fd) {
    char text[512];
    ssize_t got = read_again(fd, text, sizeof text);
    const char *key = got > 0 ? strstr(text, "\"probe_pid\":") : NULL;
    return key ? (pid_t)strtol(key + sizeof "\"probe_pid\":" - 1, NULL, 10) : 0;
}

int verb_stop(int count, char **words) {
    struct json text = {0};
    if (count != 1 || !strncmp(words[0], "--", 2)) return misuse("stop takes the folder of a run and nothing else");
    int fd = open_events(words[0]);
    if (fd < 0) return fail("there is no run in %s (%s)", words[0], errno_name(errno));
    if (!is_unlocked(fd) && !end_opener(probe_of(fd), fd) && !is_unlocked(fd))
        return fail("the probe of the run in %s cannot be reached", words[0]);
    if (!await_unlocked(fd, STOP_PATIENCE_MS)) return fail("the run in %s goes on after SIGTERM", words[0]);
    struct stat file;
    if (!fstat(fd, &file)) (void)read_more(fd, file.st_size > LAST ? file.st_size - LAST : 0, &text);
    char *line = text.length && text.data[text.length - 1] == '\n' ? text.data + text.length - 1 : NULL;
    while (line && line > text.data && line[-1] != '\n') line--;
    if (!line || !is_end(line, text.length - (size_t)(line - text.data)))
        return fail("the run in %s has no end: its probe was killed", words[0]);
    struct json end = {.data = line, .length = text.length - (size_t)(line - text.data)};
    return json_print(&end) ? 0 : fail("stdout is closed");
}
