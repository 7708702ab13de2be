/* GPU memory of a run's processes, where the kernel counts it for each process. */
#ifndef PROBE_GPU_H
#define PROBE_GPU_H

#include "family.h"

/* The counter that was found:
 *
 * kgsl        Adreno: what its driver allocated (`kernel`) and the buffers of others that it uses (`imported_mem`)
 * mali_kprcs  Mali on Pixels: `total_gpu_mem`, imported buffers included
 * mali_table  Mali elsewhere: the driver's table of contexts or processes in debugfs or /proc
 * drm_fdinfo  a driver of the kernel's own: drm-resident-*, else drm-memory-*, else drm-total-* of each client
 * dmabuf_rss  buffers shared between devices, which on most phones are the smaller part
 *
 * A part of it may be mapped into the process, and then it is in its resident memory too.
 */
struct gpu {
    const struct gpu_counter *counter; /* NULL: none */
    char *path; /* where it was found */
    const char *procfs;
};

/* Take the first counter of the list that is there and not refused. */
void gpu_find(struct gpu *gpu, const struct roots *roots, struct denied *denied);

/* NULL: no counter. */
const char *gpu_name(const struct gpu *gpu);

/* Bytes of all members together; unknown when one of them is. */
struct maybe gpu_measure(const struct gpu *gpu, const struct family *family);

#endif
