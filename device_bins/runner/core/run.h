/* One run of a runner: what it was told, its engine, and its event stream. */
#ifndef RUNNER_RUN_H
#define RUNNER_RUN_H

#include "engine.h"

struct run {
    struct options options;
    struct engine *engine;
    struct line line; /* the event that is being put together */
    struct loaded loaded;
    struct ids history, prompt; /* of timed generations */
    int64_t timed, first_timed_ns; /* timed generations so far, and when the first of them began */
    double *speeds;                /* their decode speeds, in tokens a nanosecond */
    struct loop loop;              /* what the engine's own loop counted; no ids: it did not run */
};

void event_begin(struct run *run, const char *event);
/* Write the event. `stage` says where the run is. */
void event_end(struct run *run, enum stage stage);

/* Append the engine's last complaints to a sentence. */
void with_complaint(struct line *message);

/* Do one generation and tell it. `question` NULL: the timed prompt.
 *
 * An error after the first token is told after the generation, whose `finish` is then "error". */
bool generate(struct run *run, struct task *task, const struct question *question, struct trouble *trouble);

/* Time an ordinary model on the first sample, then run every sample once and write its outputs. */
bool run_samples(struct run *run, const struct samples *samples, struct trouble *trouble);

#endif
