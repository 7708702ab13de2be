/* The clock of all times: CLOCK_MONOTONIC, which is also that of the probe's samples. */
#ifndef RUNNER_CLOCK_H
#define RUNNER_CLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

int64_t now_ns(void);

#ifdef __cplusplus
}
#endif

#endif
