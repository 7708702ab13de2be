/* Where the events of a run go: DIR/events.jsonl and stdout, the same lines in the same order.
 *
 * The file takes each line in one write. stdout never blocks the run: what it does not take at once waits in memory.
 * The file always has room reserved for the last line, so that a full disk costs lines in between, never the end. An
 * exclusive flock on it lasts as long as its probe lives: that is how others tell a live run from a dead one.
 */
#ifndef PROBE_SINK_H
#define PROBE_SINK_H

#include "json.h"

enum {
    SINK_SLOW = 1 << 20,   /* this much waits: stop reading the child's output until it is less */
    SINK_STALLED = 4 << 20 /* this much waits: nobody reads any more */
};

struct sink {
    int file;
    off_t good;     /* length of the file's whole lines */
    off_t reserved; /* up to here the disk has room for it */
    bool filled;    /* the room was made by writing zeros: this file system cannot reserve */
    bool mute;      /* nobody is meant to read stdout */
    int file_error;
    bool out_broken;
    bool out_is_socket;
    struct json waiting;
    size_t sent;
    int64_t seq;
    struct json line;
};

/* Make DIR and DIR/events.jsonl. Returns 0, or an exit status after a sentence on stderr. */
int sink_open(struct sink *sink, const char *folder);

/* Begin an event in `sink->line`, stamped with the two clocks. */
void sink_begin(struct sink *sink, const char *event, int64_t mono_ns, int64_t boot_ns);
void sink_end(struct sink *sink);
/* The same for the last event, which may use the reserved room. */
void sink_end_last(struct sink *sink);

size_t sink_waiting(const struct sink *sink);
/* Write what stdout takes without blocking. */
void sink_flush(struct sink *sink);
/* Write all that waits, for at most `patience_ms`. */
void sink_finish(struct sink *sink, int patience_ms);
/* Give back the room that was not needed. */
void sink_close(struct sink *sink);

#endif
