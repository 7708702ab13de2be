/* Where the events of a run go: DIR/events.jsonl and stdout, the same lines in the same order.
 *
 * The file takes each line in one write. stdout never blocks the run: what it does not take at once waits in memory.
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
    off_t good; /* length of the file's whole lines */
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

size_t sink_waiting(const struct sink *sink);
/* Write what stdout takes without blocking. */
void sink_flush(struct sink *sink);
/* Write all that waits, for at most `patience_ms`. */
void sink_finish(struct sink *sink, int patience_ms);

#endif
