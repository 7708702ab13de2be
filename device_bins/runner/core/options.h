/* The command line of a runner. */
#ifndef RUNNER_OPTIONS_H
#define RUNNER_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct engine;

struct question {
    char *text; /* may hold NULs */
    size_t length;
    int64_t tokens; /* longest answer; 0: as --ask-tokens says */
};

struct pair {
    const char *key; /* KEY=VALUE, as given */
    size_t key_length;
    const char *value;
};

struct options {
    const char *model;   /* a language model, or NULL */
    const char *tensor;  /* an ordinary one, or NULL; then there are the next two */
    const char *inputs, *outputs;
    const char *backend, *precision, *memory, *prompt_text, *work_dir;
    int64_t threads, prompt_tokens, context_tokens, generate_tokens, warmups, repeats, ask_tokens;
    int64_t max_repeats, load_rounds;
    int64_t duration_ns; /* 0: as many as `repeats` says */
    double cv_limit;     /* 0: none */
    bool require_backend, margins, help;
    struct pair *engine; /* the values are JSON */
    size_t engine_count;
    struct question *asks;
    size_t ask_count;
};

/* Read the command line. Returns 0, or 2 after a sentence on stderr. */
int read_options(struct options *options, struct engine *engine, int count, char **words);

/* A whole number of at least `least`. */
bool read_whole(const char *text, int64_t least, int64_t *value);
/* A number of at least 0 with a fraction, times `scale`. */
bool read_scaled(const char *text, double scale, int64_t *value);
/* A number above 0. */
bool read_factor(const char *text, double *factor);

extern const char *const usage;

#ifdef __cplusplus
}
#endif

#endif
