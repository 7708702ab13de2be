/* How much data a core's caches hold. */
#ifndef PROBE_CACHES_H
#define PROBE_CACHES_H

#include "util.h"

/* Bytes of all data and unified caches from level 2 on that one core reaches, for the core that reaches most.
 *
 * Their sum, not the last level alone: on ARM's DynamIQ and on AMD's chips the outer cache holds what the inner ones
 * dropped, so that a thread's data can fill both. Unknown when any size of such a cache is not told: a sum that lacks
 * one would be too small. A phone's system cache, which the GPU shares, is never told.
 */
struct maybe last_level_bytes(const char *sysfs, const int *cpus, size_t count, struct denied *denied);

#endif
