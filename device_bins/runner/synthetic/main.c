/* A runner without an engine: it prints farm_runner's events with times, memory, text and faults as ordered.
 *
 * Whoever reads its events must come to the figures that were ordered. Every time that it reports was measured by
 * CLOCK_MONOTONIC around the ordered wait.
 */
#include "fault.h"
#include "line.h"
#include "memory.h"
#include "order.h"
#include "pace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef SYNTHETIC_SOURCE
#define SYNTHETIC_SOURCE "unknown"
#endif

#if defined(__aarch64__)
#define ABI "arm64-v8a"
#elif defined(__arm__)
#define ABI "armeabi-v7a"
#else
#define ABI "x86_64"
#endif

#define MARKER "Can't Find type=%d backend, use 0 instead\n" /* as MNN prints it */

struct runner {
    struct order order;
    struct line line;
    int64_t began_ns;
    int64_t index;
    int64_t timed, first_timed_ns;         /* timed generations so far, and when the first of them began */
    double sum_of_speeds, sum_of_squares;  /* of their decode speeds */
};

static double ms(int64_t ns) { return (double)ns / 1e6; }

static bool is_due(const struct runner *runner, enum stage stage) {
    const struct order *order = &runner->order;
    bool per_generation = stage == PREFILL || stage == DECODE;
    return order->fault && order->at == stage && (!per_generation || runner->index == order->at_generation);
}

static void begin(struct runner *runner, const char *event) {
    runner->line.length = 0;
    line_put(&runner->line, "{\"event\": \"%s\"", event);
}

/* Write the line, spoiled if that is ordered for this stage. */
static void finish(struct runner *runner, enum stage stage) {
    struct line *line = &runner->line;
    line_put(line, "}\n");
    if (is_due(runner, stage) && runner->order.fault == TRUNCATE) {
        write_all(STDOUT_FILENO, line->data, line->length / 2);
        _exit((int)runner->order.exit_code);
    }
    if (is_due(runner, stage) && runner->order.fault == NON_UTF8) line->data[line->length / 2] = (char)0xff;
    write_all(STDOUT_FILENO, line->data, line->length);
}

static int fail(struct runner *runner, const char *stage, const char *message) {
    begin(runner, "error");
    line_put(&runner->line, ", \"stage\": \"%s\", \"message\": ", stage);
    line_text(&runner->line, message);
    finish(runner, END);
    begin(runner, "end");
    line_put(&runner->line, ", \"status\": \"error\"");
    finish(runner, END);
    return 1;
}

/* False: an error was ordered here. */
static bool pass(struct runner *runner, enum stage stage) {
    if (!is_due(runner, stage)) return true;
    commit_fault(&runner->order);
    return runner->order.fault != ERROR;
}

static void hello(struct runner *runner) {
    begin(runner, "hello");
    line_put(&runner->line,
             ", \"runner\": \"synthetic\", \"version\": \"1.0\", \"engine\": \"synthetic\", \"engine_version\": \"1.0\", "
             "\"abi\": \"" ABI "\", \"pid\": %d, \"source\": \"" SYNTHETIC_SOURCE "\"",
             (int)getpid());
    finish(runner, START);
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

static void put_resident(struct line *line, const char *key, int64_t bytes) {
    if (bytes < 0) line_put(line, ", \"%s\": null", key);
    else line_put(line, ", \"%s\": %lld", key, (long long)bytes);
}

/* Returns the exit status, 0 to go on. */
static int load(struct runner *runner, int64_t round) {
    const struct order *order = &runner->order;
    struct line *line = &runner->line;
    struct pace pace;
    int64_t before = now_ns(), held = resident_bytes();
    pace_start(&pace, order->mode);
    if (!grow_to(order->peak_bytes)) return fail(runner, "load", "the ordered memory could not be had");
    if (!pass(runner, LOAD)) return fail(runner, "load", "an error while loading was ordered");
    pace_wait(&pace, order->load_ns);
    int64_t took = now_ns() - before;
    const char *actual = order->backend_actual ? order->backend_actual : order->backend;
    if (order->fallback_marker) fprintf(stderr, MARKER, backend_code(order->backend));
    begin(runner, "load");
    line_put(line, ", \"round\": %lld, \"begun_ns\": %lld, \"load_ms\": %.6f, \"threads\": %lld", (long long)round,
             (long long)before, ms(took), (long long)order->threads);
    const char *texts[][2] = {{"backend_requested", order->backend},
                              {"backend_actual", actual},
                              {"strength", order->strength ? order->strength : "engine"},
                              {"proof", order->proof ? order->proof : "synthetic: runs on no engine, says what was ordered"},
                              {"precision", order->precision},
                              {"memory", order->memory}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        line_key(line, texts[i][0]);
        line_text(line, texts[i][1]);
    }
    line_key(line, "config");
    put_pairs(line, order->engine, order->engine_count, true);
    line_key(line, "ordered");
    put_pairs(line, order->given, order->given_count, false);
    put_resident(line, "rss_before_bytes", held);
    put_resident(line, "rss_bytes", resident_bytes());
    finish(runner, LOAD);
    if (order->require_backend && strcmp(actual, order->backend))
        return fail(runner, "fallback", "another backend was asked for than the one ordered to be used");
    return 0;
}

/* The length of an interval that begins now. */
static int64_t slowed(const struct runner *runner, int64_t ns) {
    const struct order *order = &runner->order;
    bool slow = order->slow_after_ns >= 0 && now_ns() - runner->began_ns >= order->slow_after_ns;
    bool noisy = !order->noisy_generations || runner->timed < order->noisy_generations;
    double factor = slow ? order->slow_factor : 1.0;
    if (noisy) factor *= runner->timed % 2 ? 1.0 - order->noise : 1.0 + order->noise;
    return (int64_t)((double)ns * factor);
}

static int64_t token_id(const struct order *order, int64_t n) {
    return order->id_count ? order->token_ids[(size_t)n % order->id_count] : 100 + n * 37 % 997;
}

static void put_text(struct runner *runner, const char *kind, int64_t made) {
    static const char *const words[] = {"one", "fine", "day", "the", "river", "ran", "over", "its", "green", "banks"};
    const struct order *order = &runner->order;
    const char *text = !strcmp(kind, "answer") && order->answer ? order->answer : order->text;
    struct line story = {0};
    line_key(&runner->line, "text");
    for (int64_t n = 0; !text && n < made; n++)
        line_put(&story, "%s%s", n ? " " : "", words[(size_t)n % (sizeof words / sizeof *words)]);
    if (text) line_text(&runner->line, text);
    else line_text_upto(&runner->line, story.data ? story.data : "", story.length);
    free(story.data);
}

static void remember(struct runner *runner, int64_t submitted, const int64_t *times, int64_t made) {
    double speed = made > 1 ? (double)(made - 1) / (double)(times[made - 1] - times[0]) : 0;
    if (!runner->timed++) runner->first_timed_ns = submitted;
    runner->sum_of_speeds += speed;
    runner->sum_of_squares += speed * speed;
}

/* Whether the decode speeds spread more than the limit: variance against the square of limit times mean. */
static bool spread(const struct runner *runner) {
    double count = (double)runner->timed, mean = runner->sum_of_speeds / count;
    double allowed = runner->order.cv_limit * mean;
    return count > 1 && (runner->sum_of_squares - count * mean * mean) / (count - 1) > allowed * allowed;
}

static bool wants_more(const struct runner *runner) {
    const struct order *order = &runner->order;
    if (order->duration_ns) return !runner->timed || now_ns() - runner->first_timed_ns < order->duration_ns;
    if (runner->timed < order->repeats) return true;
    return order->cv_limit > 0 && runner->timed < order->max_repeats && spread(runner);
}

static bool generate(struct runner *runner, const char *kind, const struct question *question, int64_t prompt,
                     int64_t limit) {
    const struct order *order = &runner->order;
    struct line *line = &runner->line;
    bool stops = order->eos_after && order->eos_after < limit;
    int64_t made = stops ? order->eos_after : limit - (order->short_by < limit ? order->short_by : limit - 1);
    int64_t *times = malloc((size_t)made * sizeof *times);
    if (!times) return false;
    struct pace pace;
    int64_t submitted = now_ns();
    pace_start(&pace, order->mode);
    bool good = pass(runner, PREFILL);
    pace_wait(&pace, slowed(runner, order->prefill_ns + order->prefill_token_ns * prompt));
    int64_t prefilled = now_ns();
    for (int64_t n = 0; good && n < made; n++) {
        if (n == made / 2) good = pass(runner, DECODE);
        pace_wait(&pace, slowed(runner, n ? order->token_ns : order->first_token_ns));
        times[n] = now_ns();
    }
    if (good) {
        if (!strcmp(kind, "timed")) remember(runner, submitted, times, made);
        begin(runner, "generation");
        line_put(line, ", \"index\": %lld, \"kind\": \"%s\", \"prompt_tokens\": %lld, \"generated_tokens\": %lld",
                 (long long)runner->index, kind, (long long)prompt, (long long)(stops ? made : limit));
        line_put(line, ", \"begun_ns\": %lld, \"context_tokens\": %lld", (long long)submitted,
                 (long long)(question ? 0 : order->context_tokens));
        put_resident(line, "rss_bytes", resident_bytes());
        line_put(line, ", \"prefill_ms\": %.6f, \"ttft_ms\": %.6f, \"sample_ms\": null, \"finish\": \"%s\", \"token_ms\": [",
                 ms(prefilled - submitted), ms(times[0] - submitted), stops ? "eos" : "length");
        for (int64_t n = 1; n < made; n++) line_put(line, "%s%.6f", n > 1 ? ", " : "", ms(times[n] - times[n - 1]));
        line_put(line, "], \"token_ids\": [");
        for (int64_t n = 0; n < made; n++) line_put(line, "%s%lld", n ? ", " : "", (long long)token_id(order, n));
        line_put(line, "]");
        if (question) {
            line_key(line, "question");
            if (question->raw_length) line_bytes(line, question->text, question->raw_length);
            else line_text(line, question->text);
        }
        put_text(runner, kind, made);
        finish(runner, DECODE);
    }
    free(times);
    return good && take_memory(order->leak_bytes);
}

int main(int count, char **words) {
    static struct runner runner;
    const struct order *order = &runner.order;
    int wrong = read_order(&runner.order, count, words);
    if (wrong) return wrong;
    pace_prepare();
    runner.began_ns = now_ns();
    if (!pass(&runner, START)) return fail(&runner, "config", "an error at the start was ordered");
    hello(&runner);
    for (int64_t round = 0; round < order->load_rounds; round++) {
        wrong = load(&runner, round);
        if (wrong) return wrong;
    }
    size_t asked = 0;
    for (;; runner.index++) {
        bool warmup = runner.index < order->warmups, timed = !warmup && wants_more(&runner);
        if (!warmup && !timed && asked == order->ask_count) break;
        const struct question *question = warmup || timed ? NULL : &order->asks[asked++];
        int64_t limit = !question ? order->generate_tokens : question->tokens > 0 ? question->tokens : order->ask_tokens;
        const char *kind = question ? "answer" : warmup ? "warmup" : "timed";
        if (!generate(&runner, kind, question, order->prompt_tokens, limit))
            return fail(&runner, order->at == PREFILL ? "prefill" : "decode", "an error while generating was ordered");
    }
    if (!pass(&runner, END)) return fail(&runner, "decode", "an error at the end was ordered");
    begin(&runner, "end");
    line_put(&runner.line, ", \"status\": \"ok\", \"engine_loop\": null, \"cache_after_bytes\": 0");
    finish(&runner, END);
    return 0;
}
