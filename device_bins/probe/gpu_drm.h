/* GPU memory as drivers of the kernel's own tell it in /proc/PID/fdinfo (Linux, Documentation/gpu/drm-usage-stats.rst). */
#ifndef PROBE_GPU_DRM_H
#define PROBE_GPU_DRM_H

#include "family.h"

/* Bytes of all clients of the members; unknown while none has one that tells. */
struct maybe drm_measure(const char *procfs, const struct family *family);

#endif
