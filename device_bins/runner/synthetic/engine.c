/* An engine that computes nothing: times, memory, text and faults as ordered.
 *
 * Whoever reads the events must come to the figures that were ordered. The times in them were measured by the core
 * around the ordered waits.
 */
#include "clock.h"
#include "fault.h"
#include "memory.h"
#include "model_files.h"
#include "order.h"
#include "pace.h"
#include "process.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SYNTHETIC_SOURCE
#define SYNTHETIC_SOURCE "unknown"
#endif

#define MARKER "Can't Find type=%d backend, use 0 instead\n" /* as MNN prints it */

enum { USUAL_FIRST_ID = 100, USUAL_IDS = 997 };

#define LIKELY 10.0f

struct state {
    struct order order;
    int64_t began_ns;
    int64_t prompt_tokens;
    struct pace pace;
    struct task *task; /* NULL between generations: what is fed then is history and costs no time */
    int64_t made, wanted; /* tokens of this generation */
    struct logits logits;
    float *row;
};

static struct state *state_of(struct engine *engine) { return engine->state; }

static bool is_due(const struct state *state, enum stage stage) {
    const struct order *order = &state->order;
    bool per_generation = stage == PREFILL || stage == DECODE;
    return order->at == stage && (!per_generation || !state->task || state->task->index == order->at_generation);
}

/* False: an error was ordered here. */
static bool pass(struct engine *engine, enum stage stage, struct trouble *trouble, const char *message) {
    const struct state *state = state_of(engine);
    if (!state->order.fault || !is_due(state, stage)) return true;
    commit_fault(&state->order, engine->events_fd);
    if (state->order.fault != ERROR) return true;
    trouble_say(trouble, NULL, "%s", message);
    return false;
}

static void spoil(struct engine *engine, enum stage stage, struct line *line) {
    const struct state *state = state_of(engine);
    if (!is_due(state, stage)) return;
    if (state->order.fault == TRUNCATE) {
        write_all(engine->events_fd, line->data, line->length / 2);
        _exit((int)state->order.exit_code);
    }
    if (state->order.fault == NON_UTF8) line->data[line->length / 2] = (char)0xff;
}

static int option(struct engine *engine, const char *name, const char *value) {
    struct state *state = state_of(engine);
    if (strcmp(name, "--synthetic")) return -1;
    int wrong = read_order(&state->order, value);
    engine->prints = state->order.fallback_marker != 0;
    return wrong;
}

static int32_t token_id(const struct order *order, int64_t n) {
    if (order->token_ids.count) return order->token_ids.items[(size_t)n % order->token_ids.count];
    return USUAL_FIRST_ID + (int32_t)(n * 37 % USUAL_IDS);
}

static bool open_engine(struct engine *engine, struct trouble *trouble) {
    struct state *state = state_of(engine);
    int32_t largest = USUAL_FIRST_ID + USUAL_IDS;
    settle_order(&state->order);
    pace_prepare();
    state->began_ns = now_ns();
    for (size_t n = 0; n < state->order.token_ids.count; n++)
        if (state->order.token_ids.items[n] > largest) largest = state->order.token_ids.items[n];
    state->logits = (struct logits){.count = (size_t)largest + 1, .rows = 1};
    state->row = must_have(calloc(state->logits.count, sizeof *state->row), state->logits.count * sizeof *state->row);
    state->logits.row = state->row;
    return pass(engine, START, trouble, "an error at the start was ordered");
}

static void hello(struct engine *engine, struct line *line) {
    (void)engine;
    line_put(line, ", \"source\": \"" SYNTHETIC_SOURCE "\"");
}

static void put_pairs(struct line *line, const struct pair *pairs, size_t count, bool json) {
    line_bytes(line, "{", 1);
    for (size_t i = 0; i < count; i++) {
        if (i) line_bytes(line, ", ", 2);
        line_text_upto(line, pairs[i].key, pairs[i].key_length);
        line_bytes(line, ": ", 2);
        if (json) line_bytes(line, pairs[i].value, strlen(pairs[i].value));
        else line_text(line, pairs[i].value);
    }
    line_bytes(line, "}", 1);
}

static int backend_code(const char *name) { return !strcmp(name, "opencl") ? 3 : !strcmp(name, "vulkan") ? 7 : 0; }

static bool load(struct engine *engine, const struct options *options, struct loaded *loaded,
                 struct trouble *trouble) {
    struct state *state = state_of(engine);
    const struct order *order = &state->order;
    struct model_files files = {0};
    state->prompt_tokens = options->prompt_tokens;
    if (order->check_model && !check_model(options->model, &files, trouble)) return false;
    model_files_free(&files);
    loaded->rss_before_bytes = resident_bytes();
    loaded->begun_ns = now_ns();
    pace_start(&state->pace, order->mode);
    if (!grow_to(order->peak_bytes)) return trouble_say(trouble, NULL, "the ordered memory could not be had"), false;
    if (!pass(engine, LOAD, trouble, "an error while loading was ordered")) return false;
    pace_wait(&state->pace, order->load_ns);
    loaded->took_ns = now_ns() - loaded->begun_ns;
    if (order->fallback_marker) fprintf(stderr, MARKER, backend_code(options->backend));
    loaded->backend_actual = order->backend_actual ? order->backend_actual : options->backend;
    loaded->strength = order->strength ? order->strength : "engine";
    line_put(&loaded->proof, "%s", order->proof ? order->proof : "synthetic: runs on no engine, says what was ordered");
    put_pairs(&loaded->config, options->engine, options->engine_count, true);
    line_key(&loaded->more, "ordered");
    put_pairs(&loaded->more, order->given, order->given_count, false);
    for (size_t n = 0; n < order->stops.count; n++) ids_put(&loaded->stops, order->stops.items[n]);
    return true;
}

static void unload(struct engine *engine) { (void)engine; } /* memory is kept: more rounds hold no more of it */

/* Every text is as long as the prompt that was asked for: what a generation costs does not depend on words. */
static bool tokenize(struct engine *engine, const char *text, size_t length, struct ids *ids,
                     struct trouble *trouble) {
    (void)text, (void)trouble;
    for (int64_t n = 0; length && n < state_of(engine)->prompt_tokens; n++) ids_put(ids, (int32_t)(n % USUAL_IDS));
    return true;
}

static bool reset(struct engine *engine, struct trouble *trouble) {
    (void)trouble;
    state_of(engine)->task = NULL;
    return true;
}

static void begin(struct engine *engine, struct task *task) {
    struct state *state = state_of(engine);
    const struct order *order = &state->order;
    bool ends = order->eos_after && order->eos_after < task->limit;
    int64_t less = order->short_by < task->limit ? order->short_by : task->limit - 1;
    state->task = task;
    state->made = 0;
    state->wanted = ends ? order->eos_after : task->limit - less;
    if (ends) task->ends_after = order->eos_after;
    else if (less) task->claimed = task->limit;
    if (!ends) task->limit = state->wanted;
}

/* The length of an interval that begins now. */
static int64_t slowed(const struct state *state, int64_t ns) {
    const struct order *order = &state->order;
    bool slow = order->slow_after_ns >= 0 && now_ns() - state->began_ns >= order->slow_after_ns;
    bool noisy = !order->noisy_generations || state->task->timed < order->noisy_generations;
    double factor = slow ? order->slow_factor : 1.0;
    if (noisy) factor *= state->task->timed % 2 ? 1.0 - order->noise : 1.0 + order->noise;
    return (int64_t)((double)ns * factor);
}

static bool middle(struct engine *engine, struct trouble *trouble) {
    struct state *state = state_of(engine);
    return state->made != state->wanted / 2 || pass(engine, DECODE, trouble, "an error while generating was ordered");
}

static bool forward(struct engine *engine, const int32_t *ids, size_t count, struct trouble *trouble) {
    struct state *state = state_of(engine);
    const struct order *order = &state->order;
    (void)ids;
    if (!state->task) return true;
    if (state->made) {
        if (!middle(engine, trouble)) return false;
        pace_wait(&state->pace, slowed(state, order->token_ns));
        return true;
    }
    pace_start(&state->pace, order->mode);
    if (!pass(engine, PREFILL, trouble, "an error while generating was ordered")) return false;
    pace_wait(&state->pace, slowed(state, order->prefill_ns + order->prefill_token_ns * (int64_t)count));
    return true;
}

static void put_row(struct state *state) {
    enum stage stage = state->made == state->wanted / 2 ? DECODE : PREFILL;
    bool due = state->order.logits != FINE && is_due(state, stage) && (stage == DECODE || !state->made);
    memset(state->row, 0, state->logits.count * sizeof *state->row);
    if (due && state->order.logits == ZERO) return;
    float top = !due ? LIKELY : state->order.logits == INFINITE ? INFINITY : NAN;
    state->row[token_id(&state->order, state->made)] = top;
}

static bool logits(struct engine *engine, struct logits *logits, struct trouble *trouble) {
    struct state *state = state_of(engine);
    if (!state->made) {
        if (!middle(engine, trouble)) return false;
        pace_wait(&state->pace, slowed(state, state->order.first_token_ns));
    }
    put_row(state);
    state->made++;
    *logits = state->logits;
    return true;
}

static bool text(struct engine *engine, const struct ids *ids, struct line *text, struct trouble *trouble) {
    static const char *const words[] = {"one", "fine", "day", "the", "river", "ran", "over", "its", "green", "banks"};
    const struct state *state = state_of(engine);
    const struct order *order = &state->order;
    const char *ordered = !strcmp(state->task->kind, "answer") && order->answer ? order->answer : order->text;
    (void)trouble;
    if (ordered) line_put(text, "%s", ordered);
    for (size_t n = 0; !ordered && n < ids->count; n++)
        line_put(text, "%s%s", n ? " " : "", words[n % (sizeof words / sizeof *words)]);
    return true;
}

static bool done(struct engine *engine, struct trouble *trouble) {
    struct state *state = state_of(engine);
    state->task = NULL;
    if (take_memory(state->order.leak_bytes)) return true;
    trouble_say(trouble, NULL, "the ordered memory could not be had");
    return false;
}

static bool close_engine(struct engine *engine, struct trouble *trouble) {
    return pass(engine, END, trouble, "an error at the end was ordered");
}

struct engine *engine_here(void) {
    static struct state state = {.order = USUAL_ORDER};
    static struct engine engine = {
        .runner = "synthetic",
        .name = "synthetic",
        .version = "1.0",
        .counters_null = "no engine runs, so that nothing is counted",
        .state = &state,
        .option = option,
        .open = open_engine,
        .hello = hello,
        .load = load,
        .unload = unload,
        .tokenize = tokenize,
        .reset = reset,
        .begin = begin,
        .forward = forward,
        .logits = logits,
        .text = text,
        .done = done,
        .close = close_engine,
        .spoil = spoil,
    };
    return &engine;
}
