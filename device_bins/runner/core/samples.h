/* What an ordinary model is fed: named arrays, sample by sample, from a folder with an index. */
#ifndef RUNNER_SAMPLES_H
#define RUNNER_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MOST_AXES = 16 };

struct trouble;

/* An array without gaps, its last axis first to change, in this processor's byte order, which is little-endian. */
struct array {
    const char *name;
    const char *dtype; /* float32, int32, uint8 or int8 */
    size_t rank;
    int64_t shape[MOST_AXES];
    void *bytes;
    size_t size;
};

struct sample {
    const char *name;
    struct array *arrays;
    size_t count;
};

struct samples {
    struct sample *items; /* at least one */
    size_t count;
};

/* Read `index.json` of a folder and the files that it names. What is read stays until the program's end. */
bool read_samples(const char *folder, struct samples *samples, struct trouble *trouble);

/* The engine's types; NULL for any other word. */
const char *known_dtype(const char *word);

#ifdef __cplusplus
}
#endif

#endif
