#include "hearing.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SYNC "\x01runner sync\x01"

enum { LONGEST_LINE = 65536, LONGEST_COMPLAINT = 200, COMPLAINTS = 4, PATIENCE_MS = 10000 };

static struct {
    int stderr_fd, answers;
    pid_t child; /* 0: nobody is heard */
} ear;

/* What MNN prints when it silently takes another backend (source/core/Schedule.cpp and the OpenCL runtime). `#` stands
 * for a number. */
static const char *const fallbacks[] = {"Can't Find type=# backend",  "Don't support #",      "init error, fallback",
                                        "Parsing OpenCL symbols error", "Can't create Runtime", "Runtime not valid"};
static const char *const complaints[] = {"error", "fail", "invalid", "not found", "can't", "not enough", "wrong"};

static bool matches(const char *text, const char *pattern) {
    for (; *pattern; pattern++) {
        if (*pattern != '#') {
            if (*text++ != *pattern) return false;
            continue;
        }
        size_t digits = strspn(text, "0123456789");
        if (!digits) return false;
        text += digits;
    }
    return true;
}

static bool tells_of_a_fallback(const char *text) {
    for (; *text; text++)
        for (size_t n = 0; n < sizeof fallbacks / sizeof *fallbacks; n++)
            if (matches(text, fallbacks[n])) return true;
    return false;
}

static bool complains(const char *text) {
    for (size_t n = 0; n < sizeof complaints / sizeof *complaints; n++)
        if (strcasestr(text, complaints[n])) return true;
    return false;
}

/* Whether all was taken; a reader that is gone is no reason to end. */
static bool pass_on(int fd, const char *bytes, size_t count) {
    while (count) {
        ssize_t wrote = write(fd, bytes, count);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) return false;
        bytes += wrote;
        count -= (size_t)wrote;
    }
    return true;
}

struct noticed {
    struct line fallback;
    struct line last[COMPLAINTS];
    size_t complaints;
};

static void notice(struct noticed *noticed, const char *text, size_t length) {
    struct line words = {0};
    while (length && strchr(" \t\r\n", text[length - 1])) length--;
    while (length && strchr(" \t\r\n", *text)) text++, length--;
    for (size_t n = 0; n < length; n++) line_bytes(&words, text[n] ? &text[n] : "?", 1);
    if (length && !noticed->fallback.length && tells_of_a_fallback(line_string(&words)))
        line_bytes(&noticed->fallback, words.data, words.length);
    if (length && complains(line_string(&words))) {
        struct line *place = &noticed->last[noticed->complaints++ % COMPLAINTS];
        line_clear(place);
        line_bytes(place, words.data, words.length < LONGEST_COMPLAINT ? words.length : LONGEST_COMPLAINT);
    }
    line_free(&words);
}

static bool answer(const struct noticed *noticed, int answers) {
    struct line told = {0};
    line_put(&told, "f%s\n", line_string(&noticed->fallback));
    size_t first = noticed->complaints < COMPLAINTS ? 0 : noticed->complaints - COMPLAINTS;
    for (size_t n = first; n < noticed->complaints; n++)
        line_put(&told, "c%s\n", line_string(&noticed->last[n % COMPLAINTS]));
    line_put(&told, ".\n");
    bool taken = pass_on(answers, told.data, told.length);
    line_free(&told);
    return taken;
}

static void copy_line(struct noticed *noticed, const char *line, size_t length, int answers, int sink) {
    const char *mark = memmem(line, length, SYNC, sizeof SYNC - 1);
    size_t before = mark ? (size_t)(mark - line) : length;
    if (before || !mark) {
        (void)(pass_on(sink, line, before) && pass_on(sink, "\n", 1));
        notice(noticed, line, before);
    }
    if (mark) (void)answer(noticed, answers);
}

void copy_along(int source, int answers, int sink) {
    static char chunk[LONGEST_LINE];
    struct noticed noticed = {0};
    struct line pending = {0};
    for (;;) {
        ssize_t got = read(source, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR) continue;
        if (got > 0) line_bytes(&pending, chunk, (size_t)got);
        size_t done = 0;
        for (const char *end; pending.length > done &&
                              (end = memchr(pending.data + done, '\n', pending.length - done));
             done = (size_t)(end - pending.data) + 1)
            copy_line(&noticed, pending.data + done, (size_t)(end - pending.data) - done, answers, sink);
        if (pending.length > done && (got <= 0 || pending.length - done > LONGEST_LINE)) {
            copy_line(&noticed, pending.data + done, pending.length - done, answers, sink);
            done = pending.length;
        }
        if (done) memmove(pending.data, pending.data + done, pending.length - done);
        pending.length -= done;
        if (got <= 0) break;
    }
    line_free(&pending);
}

void hearing_start(int events_fd) {
    int from_engine[2], told[2];
    ear.stderr_fd = dup(STDERR_FILENO);
    if (ear.stderr_fd < 0 || pipe(from_engine) || pipe(told)) return; /* it goes to stdout as junk lines then */
    fflush(NULL);
    ear.child = fork();
    if (ear.child == 0) {
        signal(SIGINT, SIG_IGN);
        int not_mine[] = {events_fd, from_engine[1], told[0], STDOUT_FILENO};
        for (size_t n = 0; n < sizeof not_mine / sizeof *not_mine; n++) close(not_mine[n]);
        copy_along(from_engine[0], told[1], ear.stderr_fd);
        _exit(0);
    }
    signal(SIGPIPE, SIG_IGN);
    dup2(from_engine[1], STDOUT_FILENO);
    dup2(from_engine[1], STDERR_FILENO);
    close(from_engine[0]);
    close(from_engine[1]);
    close(told[1]);
    ear.answers = told[0];
    setvbuf(stdout, NULL, _IOLBF, 0); /* or the last words before a crash stay in the C library's buffer */
}

/* Read until the line "." or until the child is gone or silent; false then. */
static bool read_answer(struct line *told) {
    char chunk[4096];
    struct pollfd ready = {.fd = ear.answers, .events = POLLIN};
    while (told->length < 2 || memcmp(told->data + told->length - 2, ".\n", 2)) {
        int count = poll(&ready, 1, PATIENCE_MS);
        if (count < 0 && errno == EINTR) continue;
        ssize_t got = count > 0 ? read(ear.answers, chunk, sizeof chunk) : 0;
        if (got <= 0) return false;
        line_bytes(told, chunk, (size_t)got);
    }
    return true;
}

struct heard hearing_ask(void) {
    struct heard heard = {0};
    struct line told = {0};
    if (ear.child <= 0) return heard;
    fflush(NULL);
    if (pass_on(STDERR_FILENO, SYNC "\n", sizeof SYNC) && read_answer(&told))
        for (char *at = told.data, *end; (end = strchr(at, '\n')); at = end + 1) {
            struct line *place = *at == 'f' ? &heard.fallback : *at == 'c' ? &heard.complaints : NULL;
            if (!place) continue;
            if (place->length) line_put(place, " | ");
            line_bytes(place, at + 1, (size_t)(end - at) - 1);
        }
    line_free(&told);
    return heard;
}

void heard_free(struct heard *heard) {
    line_free(&heard->fallback);
    line_free(&heard->complaints);
}

void hearing_stop(void) {
    if (ear.child <= 0) return;
    fflush(NULL);
    dup2(ear.stderr_fd, STDOUT_FILENO);
    dup2(ear.stderr_fd, STDERR_FILENO);
    while (waitpid(ear.child, NULL, 0) < 0 && errno == EINTR) continue;
    ear.child = 0;
}
