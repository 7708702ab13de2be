/* What was ordered: farm_runner's own options, and the known truth of --synthetic. */
#ifndef SYNTHETIC_ORDER_H
#define SYNTHETIC_ORDER_H

#include "pace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_WORDS = 64, MAX_IDS = 512, MAX_QUESTIONS = 1024 };

enum stage { START, LOAD, PREFILL, DECODE, END };

enum fault { NO_FAULT, HANG, SIGNAL, EXIT, ERROR, GARBAGE, NON_UTF8, TRUNCATE };

struct question {
    const char *text;     /* a piece of JSON (with its quotes) when `raw_length` is set, else plain text */
    size_t raw_length;
    int64_t tokens;
};

struct pair {
    const char *key; /* KEY=VALUE, as given */
    size_t key_length;
    const char *value;
};

struct order {
    const char *model, *backend, *precision, *memory;
    int64_t threads, prompt_tokens, context_tokens, generate_tokens, warmups, repeats, ask_tokens;
    int64_t max_repeats, load_rounds;
    int64_t duration_ns; /* 0: as many as `repeats` says */
    double cv_limit;     /* 0: none */
    bool require_backend;
    struct pair engine[MAX_WORDS];
    size_t engine_count;
    struct question asks[MAX_QUESTIONS];
    size_t ask_count;
    /* --synthetic */
    struct pair given[MAX_WORDS];
    size_t given_count;
    enum mode mode;
    int64_t load_ns, prefill_ns, prefill_token_ns, first_token_ns, token_ns;
    int64_t slow_after_ns; /* -1: never */
    double slow_factor;
    double noise;              /* a generation's times are longer and shorter by this share, in turn */
    int64_t noisy_generations; /* so many of them; 0: all */
    int64_t peak_bytes, leak_bytes;
    const char *text, *answer;
    int64_t token_ids[MAX_IDS];
    size_t id_count;
    int64_t eos_after; /* 0: none */
    int64_t short_by;
    const char *backend_actual, *strength, *proof;
    bool fallback_marker;
    enum fault fault;
    int signal_number;
    int64_t exit_code;
    enum stage at;
    int64_t at_generation;
};

/* Read the command line. Returns 0, or 2 after a sentence on stderr. */
int read_order(struct order *order, int count, char **words);

#endif
