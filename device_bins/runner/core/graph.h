/* As much of an MNN graph (a flatbuffer) as tells how long its weight file has to be. */
#ifndef RUNNER_GRAPH_H
#define RUNNER_GRAPH_H

#include <stddef.h>
#include <stdint.h>

/* The end of the last piece that the graph reads from its weight file; -1: the bytes are no MNN graph. */
int64_t graph_weight_bytes(const uint8_t *data, size_t size);

#endif
