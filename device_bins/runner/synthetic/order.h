/* What was ordered: the known truth of --synthetic. */
#ifndef SYNTHETIC_ORDER_H
#define SYNTHETIC_ORDER_H

#include "engine.h"
#include "pace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_WORDS = 64, MAX_IDS = 512, LARGEST_ID = 262143 };

enum fault { NO_FAULT, HANG, SIGNAL, EXIT, ERROR, GARBAGE, NON_UTF8, TRUNCATE };

enum spoilt { FINE, NOT_A_NUMBER, INFINITE, ZERO };

struct order {
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
    struct ids token_ids, stops;
    enum spoilt logits;
    int64_t eos_after; /* 0: none */
    int64_t short_by;
    int64_t check_model;
    const char *backend_actual, *strength, *proof;
    int64_t fallback_marker;
    enum fault fault;
    int signal_number;
    int64_t exit_code;
    enum stage at;
    int64_t at_generation;
};

/* Before anything is ordered. */
#define USUAL_ORDER                                                                                              \
    {                                                                                                            \
        .load_ns = 20000000, .prefill_ns = -1, .prefill_token_ns = -1, .first_token_ns = 100000,                 \
        .token_ns = 2000000, .slow_after_ns = -1, .slow_factor = 1.0, .at = DECODE                               \
    }

/* Read one KEY=VALUE. Returns 0, or 2 after a sentence on stderr. */
int read_order(struct order *order, const char *word);

/* After the last one: what follows from what was not said. */
void settle_order(struct order *order);

#endif
