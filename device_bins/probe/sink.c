#include "sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
    PIPE_PIECE = 4096,  /* a pipe that polls writable takes this much without blocking */
    END_ROOM = 4096,    /* more than the last event ever needs */
    ROOM_STEP = 65536,  /* so much more is reserved at a time */
    FIRST_ROOM = 32768, /* without it no run is begun */
    ZEROS = 4096
};

/* Write zeros from the end of what is reserved; all or nothing. Returns 0 or errno. */
static int fill(struct sink *sink, off_t until) {
    static const char zeros[ZEROS];
    for (off_t at = sink->reserved; at < until;) {
        size_t count = until - at < ZEROS ? (size_t)(until - at) : ZEROS;
        ssize_t wrote = pwrite(sink->file, zeros, count, at);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            int error = errno;
            return ftruncate(sink->file, sink->reserved) ? errno : error;
        }
        at += wrote;
    }
    return 0;
}

static int grow(struct sink *sink, off_t until) {
    int done = 0;
    while (!sink->filled) {
        done = fallocate(sink->file, FALLOC_FL_KEEP_SIZE, sink->good, until - sink->good);
        if (!done || (errno != EINTR && errno != EOPNOTSUPP && errno != ENOSYS)) break;
        sink->filled = errno != EINTR;
    }
    return sink->filled ? fill(sink, until) : done ? errno : 0;
}

/* Make sure that the file can grow to `until`. */
static bool reserve(struct sink *sink, off_t until) {
    if (until <= sink->reserved) return true;
    int error = grow(sink, until + ROOM_STEP);
    if (!error) return sink->reserved = until + ROOM_STEP, true;
    error = grow(sink, until);
    if (!error) return sink->reserved = until, true;
    if (!sink->file_error) sink->file_error = error;
    return false;
}

int sink_open(struct sink *sink, const char *folder) {
    struct stat out;
    int error = make_folders(folder);
    if (error) return fail("cannot make the folder %s (%s): choose one that can be written", folder, errno_name(error));
    char *path = must_format("%s/events.jsonl", folder);
    sink->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    error = errno;
    while (sink->file >= 0 && flock(sink->file, LOCK_EX) && errno == EINTR) continue;
    bool room = sink->file >= 0 && reserve(sink, FIRST_ROOM);
    if (sink->file >= 0 && !room) (void)unlink(path);
    free(path);
    if (sink->file >= 0 && !room)
        return fail("%s has no room for events (%s): make space there", folder, errno_name(sink->file_error));
    if (sink->file < 0 && error == EEXIST)
        return fail("%s/events.jsonl is there already: give each run a folder of its own", folder);
    if (sink->file < 0) return fail("cannot make %s/events.jsonl (%s)", folder, errno_name(error));
    sink->out_is_socket = !fstat(STDOUT_FILENO, &out) && S_ISSOCK(out.st_mode);
    return 0;
}

void sink_begin(struct sink *sink, const char *event, int64_t mono_ns, int64_t boot_ns) {
    struct json *line = &sink->line;
    json_reset(line);
    json_open(line, '{');
    json_key(line, "ev");
    json_text(line, event);
    json_key(line, "seq");
    json_int(line, sink->seq++);
    json_key(line, "mono_ns");
    json_int(line, mono_ns);
    json_key(line, "boot_ns");
    json_int(line, boot_ns);
}

/* One write, as a rule: a second one tells why the first was short. A line that does not fit is taken back whole; the
 * next one is tried again (its seq shows the gap).
 */
static void write_file(struct sink *sink, bool last) {
    size_t done = 0;
    off_t after = sink->good + (off_t)sink->line.length;
    if (!reserve(sink, last ? after : after + END_ROOM)) return;
    while (done < sink->line.length) {
        ssize_t wrote = pwrite(sink->file, sink->line.data + done, sink->line.length - done, sink->good + (off_t)done);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) break;
        done += (size_t)wrote;
    }
    if (done == sink->line.length) {
        sink->good = after;
        return;
    }
    if (!sink->file_error) sink->file_error = errno;
    if (done && ftruncate(sink->file, sink->good)) sink->file_error = errno;
    if (done) sink->reserved = sink->good;
}

static void end(struct sink *sink, bool last) {
    json_close(&sink->line, '}');
    json_newline(&sink->line);
    write_file(sink, last);
    if (sink->out_broken || sink->mute) return;
    json_raw(&sink->waiting, &sink->line);
    sink_flush(sink);
}

void sink_end(struct sink *sink) { end(sink, false); }
void sink_end_last(struct sink *sink) { end(sink, true); }

void sink_close(struct sink *sink) {
    if (ftruncate(sink->file, sink->good) && !sink->file_error) sink->file_error = errno;
    close(sink->file);
}

size_t sink_waiting(const struct sink *sink) { return sink->waiting.length - sink->sent; }

static ssize_t write_some(struct sink *sink) {
    const char *from = sink->waiting.data + sink->sent;
    size_t count = sink_waiting(sink);
    if (sink->out_is_socket) return send(STDOUT_FILENO, from, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    return write(STDOUT_FILENO, from, count < PIPE_PIECE ? count : PIPE_PIECE);
}

void sink_flush(struct sink *sink) {
    while (!sink->out_broken && sink_waiting(sink)) {
        struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
        int ready = poll(&out, 1, 0);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) break;
        ssize_t wrote = out.revents & POLLOUT ? write_some(sink) : -1;
        if (wrote >= 0) sink->sent += (size_t)wrote;
        else if (out.revents & POLLOUT && errno == EINTR) continue;
        else if (out.revents & POLLOUT && errno == EAGAIN) break;
        else sink->out_broken = true;
    }
    if (sink->out_broken) sink->sent = sink->waiting.length;
    if (sink->sent == sink->waiting.length) {
        json_reset(&sink->waiting);
    } else if (sink->sent > SINK_SLOW) {
        memmove(sink->waiting.data, sink->waiting.data + sink->sent, sink_waiting(sink));
        sink->waiting.length -= sink->sent;
    } else {
        return;
    }
    sink->sent = 0;
}

void sink_finish(struct sink *sink, int patience_ms) {
    int64_t until = clock_ns(CLOCK_MONOTONIC) + (int64_t)patience_ms * 1000000;
    for (sink_flush(sink); sink_waiting(sink); sink_flush(sink)) {
        int64_t left = until - clock_ns(CLOCK_MONOTONIC);
        struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
        if (left <= 0) return;
        (void)poll(&out, 1, (int)(left / 1000000) + 1);
    }
}
