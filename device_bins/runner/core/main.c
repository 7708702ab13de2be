/* A runner: prints one JSON object a line on stdout: `hello`, `load`, `generation` (one per warm-up, timed generation
 * and answer), of an ordinary model `inference` and `output` instead, `error`, `end`. Exit code 0 when all was done, 1 after an `error` event, 2 for a wrong command line (one
 * sentence on stderr, nothing on stdout). Times are milliseconds of the monotonic clock, sizes bytes.
 */
#include "clock.h"
#include "hearing.h"
#include "process.h"
#include "run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RUNNER_VERSION "1.0"

#if defined(__aarch64__)
#define ABI "arm64-v8a"
#elif defined(__arm__)
#define ABI "armeabi-v7a"
#elif defined(__x86_64__)
#define ABI "x86_64"
#elif defined(__i386__)
#define ABI "x86"
#elif defined(__riscv)
#define ABI "riscv64"
#else
#error "Android knows no such processor"
#endif

static int fail(struct run *run, const struct trouble *trouble, const char *stage) {
    event_begin(run, "error");
    line_put(&run->line, ", \"stage\": \"%s\", \"message\": ", trouble->stage ? trouble->stage : stage);
    line_text(&run->line, line_string(&trouble->message));
    event_end(run, END);
    event_begin(run, "end");
    line_put(&run->line, ", \"status\": \"error\"");
    event_end(run, END);
    return 1;
}

static void tell_hello(struct run *run) {
    struct line *line = &run->line;
    event_begin(run, "hello");
    const char *texts[][2] = {{"runner", run->engine->runner},
                              {"version", RUNNER_VERSION},
                              {"engine", run->engine->name},
                              {"engine_version", run->engine->version},
                              {"abi", ABI}};
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        line_key(line, texts[n][0]);
        line_text(line, texts[n][1]);
    }
    line_put(line, ", \"pid\": %d", (int)getpid());
    line_amount(line, "rss_bytes", resident_bytes());
    if (run->engine->hello) run->engine->hello(run->engine, line);
    event_end(run, START);
}

static bool make_folders(const char *path) {
    struct line part = {0};
    bool good = true;
    for (size_t n = 1; good && n <= strlen(path); n++) {
        if (path[n] && path[n] != '/') continue;
        line_clear(&part);
        line_bytes(&part, path, n);
        good = !mkdir(part.data, 0777) || errno == EEXIST || errno == EROFS || errno == EACCES;
    }
    line_free(&part);
    return good;
}

/* Go to the work folder: some caches of an engine go to the current folder whatever it is told. */
static bool enter_work_folder(struct options *options, struct trouble *trouble) {
    const char **paths[] = {&options->model, &options->tensor, &options->inputs, &options->outputs};
    struct line work = {0};
    for (size_t n = 0; n < sizeof paths / sizeof *paths; n++) {
        struct line path = {0};
        if (!*paths[n]) continue;
        absolute_path(&path, *paths[n]);
        *paths[n] = path.data;
    }
    absolute_path(&work, options->work_dir ? options->work_dir : ".");
    options->work_dir = work.data;
    if (make_folders(work.data) && !chdir(work.data)) return true;
    trouble_say(trouble, "config", "the work folder %s cannot be used: %s", work.data, strerror(errno));
    return false;
}

static void tell_load(struct run *run, int64_t round, int64_t cache_before) {
    const struct options *options = &run->options;
    const struct loaded *loaded = &run->loaded;
    struct line *line = &run->line;
    event_begin(run, "load");
    line_amount(line, "round", round);
    line_amount(line, "begun_ns", loaded->begun_ns);
    line_ms(line, "load_ms", loaded->took_ns);
    const char *texts[][2] = {{"backend_requested", options->backend}, {"backend_actual", loaded->backend_actual},
                              {"strength", loaded->strength},          {"proof", line_string(&loaded->proof)},
                              {"precision", options->precision},       {"memory", options->memory}};
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++) {
        line_key(line, texts[n][0]);
        line_text(line, texts[n][1]);
    }
    line_amount(line, "threads", options->threads);
    line_key(line, "config");
    line_bytes(line, line_string(&loaded->config), loaded->config.length);
    line_key(line, "stop_tokens");
    line_ids(line, &loaded->stops);
    line_amount(line, "rss_before_bytes", loaded->rss_before_bytes);
    line_amount(line, "rss_bytes", resident_bytes());
    line_amount(line, "cache_before_bytes", cache_before);
    line_bytes(line, line_string(&loaded->more), loaded->more.length);
    event_end(run, LOAD);
}

static void forget_loaded(struct run *run) {
    line_free(&run->loaded.proof);
    line_free(&run->loaded.config);
    line_free(&run->loaded.more);
    ids_free(&run->loaded.stops);
    run->loaded = (struct loaded){0};
}

static bool is_required(const struct run *run, struct trouble *trouble) {
    const struct options *options = &run->options;
    const char *actual = run->loaded.backend_actual;
    if (!options->require_backend || (actual && !strcmp(actual, options->backend))) return true;
    trouble_say(trouble, "fallback", "%s was asked for and not used: %s", options->backend,
                line_string(&run->loaded.proof));
    return false;
}

/* Load as often as asked, each time without the one before; the last one stays. */
static bool load_in_rounds(struct run *run, struct trouble *trouble) {
    const struct options *options = &run->options;
    struct engine *engine = run->engine;
    for (int64_t round = 0;; round++) {
        int64_t cache_before = files_bytes(engine->cache_name);
        if (!engine->load(engine, options, &run->loaded, trouble)) return with_complaint(&trouble->message), false;
        tell_load(run, round, cache_before);
        if (!is_required(run, trouble)) return false;
        if (round + 1 == options->load_rounds) return true;
        engine->unload(engine);
        forget_loaded(run);
    }
}

/* Cut history and prompt from the prompt text: exactly as many tokens as asked for, with the tokenizer's own prefix in
 * front. The prompt goes on where the history ends. */
static bool cut_prompt(struct run *run, struct trouble *trouble) {
    struct engine *engine = run->engine;
    const char *text = run->options.prompt_text;
    struct ids prefix = {0}, all = {0};
    bool good = engine->tokenize(engine, "", 0, &prefix, trouble) &&
                engine->tokenize(engine, text, strlen(text), &all, trouble);
    if (good && all.count <= prefix.count) {
        trouble_say(trouble, "config", "the tokenizer makes no tokens of the prompt text '%.40s'", text);
        good = false;
    }
    int64_t history = run->options.context_tokens, length = history + run->options.prompt_tokens;
    for (int64_t n = 0; good && n < length; n++) {
        size_t at = (size_t)n, body = all.count - prefix.count;
        int32_t id = at < prefix.count ? prefix.items[at] : all.items[prefix.count + (at - prefix.count) % body];
        ids_put(n < history ? &run->history : &run->prompt, id);
    }
    ids_free(&prefix);
    ids_free(&all);
    return good;
}

/* Standard deviation over mean; 0 below two values. */
static double spread(const double *values, int64_t count) {
    double mean = 0, squares = 0;
    for (int64_t n = 0; n < count; n++) mean += values[n] / (double)count;
    for (int64_t n = 0; n < count; n++) squares += (values[n] - mean) * (values[n] - mean);
    return count > 1 && mean > 0 ? sqrt(squares / (double)(count - 1)) / mean : 0;
}

static bool wants_more(const struct run *run) {
    const struct options *options = &run->options;
    if (options->duration_ns) return !run->timed || now_ns() - run->first_timed_ns < options->duration_ns;
    if (run->timed < options->repeats) return true;
    return options->cv_limit > 0 && run->timed < options->max_repeats &&
           spread(run->speeds, run->timed) > options->cv_limit;
}

static bool generate_all(struct run *run, struct trouble *trouble) {
    const struct options *options = &run->options;
    size_t asked = 0;
    for (int64_t index = 0;; index++) {
        bool warmup = index < options->warmups, timed = !warmup && wants_more(run);
        if (!warmup && !timed && asked == options->ask_count) return true;
        const struct question *question = warmup || timed ? NULL : &options->asks[asked++];
        int64_t answer = question && question->tokens ? question->tokens : options->ask_tokens;
        struct task task = {.kind = question ? "answer" : warmup ? "warmup" : "timed",
                            .index = index,
                            .timed = run->timed,
                            .limit = question ? answer : options->generate_tokens,
                            .claimed = -1};
        if (!generate(run, &task, question, trouble)) return false;
    }
}

/* What the engine counts when it generates by itself, to be held against the stepped times. */
static bool own_loop(struct run *run, struct trouble *trouble) {
    struct engine *engine = run->engine;
    bool wanted = engine->loop && run->timed && !run->history.count && !run->options.duration_ns && !run->options.margins;
    if (!wanted) return true;
    if (engine->loop(engine, &run->prompt, run->options.generate_tokens, &run->loop, trouble)) return true;
    if (!trouble->stage) trouble->stage = "engine_loop";
    with_complaint(&trouble->message);
    return false;
}

static void tell_end(struct run *run) {
    const struct loop *loop = &run->loop;
    struct line *line = &run->line;
    event_begin(run, "end");
    line_put(line, ", \"status\": \"ok\", \"engine_loop\": ");
    if (loop->ids.count) {
        line_put(line, "{\"prompt_tokens\": %zu", run->prompt.count);
        line_amount(line, "generated_tokens", loop->generated);
        line_ms(line, "prefill_ms", loop->prefill_us * 1000);
        line_ms(line, "decode_ms", loop->decode_us * 1000);
        line_ms(line, "sample_ms", loop->sample_us * 1000);
        line_key(line, "token_ids");
        line_ids(line, &loop->ids);
        line_bytes(line, "}", 1);
    } else {
        line_bytes(line, "null", 4);
    }
    line_amount(line, "cache_after_bytes", files_bytes(run->engine->cache_name));
    event_end(run, END);
}

/* Load an ordinary model, sized for the first sample. */
static bool load_for(struct run *run, const struct sample *sample, struct trouble *trouble) {
    struct engine *engine = run->engine;
    int64_t cache_before = files_bytes(engine->cache_name);
    if (!engine->tensor_load(engine, &run->options, sample, &run->loaded, trouble))
        return with_complaint(&trouble->message), false;
    tell_load(run, 0, cache_before);
    return is_required(run, trouble);
}

static int run_tensor(struct run *run) {
    struct trouble trouble = {0};
    struct samples samples = {0};
    if (!enter_work_folder(&run->options, &trouble) || !read_samples(run->options.inputs, &samples, &trouble))
        return fail(run, &trouble, "input");
    if (!load_for(run, &samples.items[0], &trouble)) return fail(run, &trouble, "load");
    if (!run_samples(run, &samples, &trouble)) return fail(run, &trouble, "run");
    run->engine->unload(run->engine);
    tell_end(run);
    return 0;
}

static int run_all(struct run *run) {
    struct engine *engine = run->engine;
    struct trouble trouble = {0};
    if (engine->open && !engine->open(engine, &trouble)) return fail(run, &trouble, "config");
    tell_hello(run);
    if (run->options.tensor) return run_tensor(run);
    if (!enter_work_folder(&run->options, &trouble) || !load_in_rounds(run, &trouble))
        return fail(run, &trouble, "load");
    if (!cut_prompt(run, &trouble)) return fail(run, &trouble, "config");
    if (!generate_all(run, &trouble) || !own_loop(run, &trouble)) return fail(run, &trouble, "decode");
    if (engine->close && !engine->close(engine, &trouble)) return fail(run, &trouble, "decode");
    engine->unload(engine); /* which is when some engines write what they keep of their tuning */
    tell_end(run);
    return 0;
}

int main(int count, char **words) {
    static struct run run;
    run.engine = engine_here();
    name_program(run.engine->runner);
    int wrong = read_options(&run.options, run.engine, count, words);
    if (wrong) return wrong;
    if (run.options.help) return fputs(usage, stdout) < 0;
    run.engine->events_fd = STDOUT_FILENO;
    if (run.engine->prints) {
        run.engine->events_fd = dup(STDOUT_FILENO);
        hearing_start(run.engine->events_fd);
    }
    int status = run_all(&run);
    hearing_stop();
    fflush(NULL);
    /* What libraries of phones do in their last functions is not what was measured: some of them crash there. */
    _exit(status);
}
