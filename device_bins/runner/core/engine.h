/* What an engine is to the core. The core reads options, chooses tokens, takes times and tells events; the engine
 * computes.
 *
 * Functions that can fail return false after `trouble_say`. Those that are marked (optional) may be NULL.
 */
#ifndef RUNNER_ENGINE_H
#define RUNNER_ENGINE_H

#include "line.h"
#include "options.h"
#include "samples.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What went wrong, and in which stage; a stage of NULL is the one that the core is in. */
struct trouble {
    const char *stage;
    struct line message;
};

void trouble_say(struct trouble *trouble, const char *stage, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Where a line of the event stream comes from. */
enum stage { START, LOAD, PREFILL, DECODE, END };

/* What is known once the model is loaded. */
struct loaded {
    int64_t rss_before_bytes;
    int64_t begun_ns, took_ns;
    const char *backend_actual; /* NULL: nobody knows */
    const char *strength;
    struct line proof;
    struct line config; /* a JSON object: the configuration that the engine works with */
    struct line more;   /* further fields of the event, each with `, ` in front */
    struct ids stops;   /* ids that end an answer */
};

/* The last row of logits, valid until the next forward; `rows` is how many the engine gave. */
struct logits {
    const float *row;
    size_t count;
    size_t rows;
};

/* One generation. An engine that is told what to do may change the last three. */
struct task {
    const char *kind; /* warmup, timed, answer */
    int64_t index;
    int64_t timed; /* timed generations before this one */
    int64_t limit;      /* longest answer */
    int64_t ends_after; /* so many tokens are an answer that has its end; 0: only a stop token is one */
    int64_t claimed;    /* told instead of how many came out; -1: the truth */
};

/* What the engine's own loop counted. */
struct loop {
    int64_t generated;
    int64_t prefill_us, decode_us, sample_us;
    struct ids ids;
};

struct engine {
    const char *runner;
    const char *name;
    const char *version;       /* of the engine, NULL when it does not tell */
    bool prints;               /* the engine prints what is to be kept off the event stream and read along */
    const char *cache_name;    /* what the names of its tuning files in the work folder begin with; NULL: has none */
    const char *counters_null; /* why a generation has no counters of the engine */
    void *state;
    int events_fd; /* where events are written: set by the core */

    /* An option of its own (optional). Returns 0, or 2 after misuse(); -1 when it is no option of this engine. */
    int (*option)(struct engine *engine, const char *name, const char *value);
    /* Before the first event (optional). */
    bool (*open)(struct engine *engine, struct trouble *trouble);
    /* Further fields of `hello` (optional). */
    void (*hello)(struct engine *engine, struct line *line);
    bool (*load)(struct engine *engine, const struct options *options, struct loaded *loaded, struct trouble *trouble);
    void (*unload)(struct engine *engine);
    bool (*tokenize)(struct engine *engine, const char *text, size_t length, struct ids *ids, struct trouble *trouble);
    /* The question as the model wants it; nothing put: as it is (optional). */
    bool (*chat)(struct engine *engine, const char *text, size_t length, struct line *prompt, struct trouble *trouble);
    /* Empty the context. */
    bool (*reset)(struct engine *engine, struct trouble *trouble);
    /* A generation begins, its context is empty or holds the history (optional). */
    void (*begin)(struct engine *engine, struct task *task);
    bool (*forward)(struct engine *engine, const int32_t *ids, size_t count, struct trouble *trouble);
    bool (*logits)(struct engine *engine, struct logits *logits, struct trouble *trouble);
    /* The bytes of all tokens together. */
    bool (*text)(struct engine *engine, const struct ids *ids, struct line *text, struct trouble *trouble);
    /* Generate by the engine's own loop (optional). */
    bool (*loop)(struct engine *engine, const struct ids *prompt, int64_t limit, struct loop *loop,
                 struct trouble *trouble);
    /* A generation was told (optional). */
    bool (*done)(struct engine *engine, struct trouble *trouble);
    /* An ordinary model instead, sized for a sample (optional, with the three below). */
    bool (*tensor_load)(struct engine *engine, const struct options *options, const struct sample *sample,
                        struct loaded *loaded, struct trouble *trouble);
    /* Take another sample. */
    bool (*tensor_fit)(struct engine *engine, const struct sample *sample, struct trouble *trouble);
    /* Inputs in, run, outputs out. */
    bool (*tensor_run)(struct engine *engine, struct trouble *trouble);
    /* An output of the last run, valid until the next one; false when there are no more. Without a `dtype` it has one
     * that is not known here. */
    bool (*tensor_output)(struct engine *engine, size_t number, struct array *array);
    /* All was done (optional). */
    bool (*close)(struct engine *engine, struct trouble *trouble);
    /* The last look at a line before it is written (optional): an engine made for tests spoils it. */
    void (*spoil)(struct engine *engine, enum stage stage, struct line *line);
};

/* The engine of this program. */
struct engine *engine_here(void);

#ifdef __cplusplus
}
#endif

#endif
