#include "pace.h"

#include "clock.h"

#include <errno.h>
#include <sys/prctl.h>
#include <time.h>

enum { SPIN_END_US = 60 /* a sleeper is woken so much early and spins the rest */ };

static int64_t read_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void pace_prepare(void) { (void)prctl(PR_SET_TIMERSLACK, 1UL); }

void pace_start(struct pace *pace, enum mode mode) {
    *pace = (struct pace){.mode = mode, .start_ns = read_ns(mode == WORK ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC)};
}

static void sleep_until(int64_t until_ns) {
    int64_t early = until_ns - (int64_t)SPIN_END_US * 1000;
    struct timespec until = {.tv_sec = (time_t)(early / 1000000000), .tv_nsec = (long)(early % 1000000000)};
    if (early > now_ns())
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
}

void pace_wait(struct pace *pace, int64_t more_ns) {
    pace->ahead_ns += more_ns;
    int64_t until = pace->start_ns + pace->ahead_ns;
    if (pace->mode == SLEEP) sleep_until(until);
    clockid_t clock = pace->mode == WORK ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    while (read_ns(clock) < until) continue;
}
