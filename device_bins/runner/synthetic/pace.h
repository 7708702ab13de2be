/* Waiting to a schedule. Every moment is told as a distance from one start, so that errors do not add up. */
#ifndef SYNTHETIC_PACE_H
#define SYNTHETIC_PACE_H

#include <stdint.h>

enum mode {
    SLEEP, /* leaves the processor alone */
    SPIN,  /* burns the processor until the clock says so */
    WORK   /* burns so much CPU time: a processor that gives less makes it longer, as real work does */
};

struct pace {
    enum mode mode;
    int64_t start_ns; /* of CLOCK_MONOTONIC; for WORK of this thread's CPU time */
    int64_t ahead_ns; /* how far the schedule has gone */
};

/* Ask the kernel to wake this thread when told, not up to 50 us later. */
void pace_prepare(void);

void pace_start(struct pace *pace, enum mode mode);

/* Go on until `more_ns` after the moment that the last call waited for. */
void pace_wait(struct pace *pace, int64_t more_ns);

#endif
