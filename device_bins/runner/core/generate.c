#include "choose.h"
#include "clock.h"
#include "process.h"
#include "run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RIVALS = 6, FIRST_LOGITS = 10 };

/* What came out of a generation. Times are those of the clock. */
struct made {
    int64_t started, prefill_ns, sample_ns, tokenize_ns, context_ns; /* -1: there was none */
    struct ids ids;
    int64_t *times; /* of each token */
    const char *finish;
    struct rival first[FIRST_LOGITS];
    struct line margins;
};

/* The tokens nearest behind the chosen one, and how far behind each one's logit is. */
static void put_rivals(struct line *line, const struct logits *logits, const struct ids *barred, int32_t chosen) {
    struct rival found[RIVALS];
    size_t count = largest(logits, barred, chosen, found, RIVALS);
    line_bytes(line, line->length ? ", [" : "[", line->length ? 3 : 1);
    for (size_t n = 0; n < count; n++)
        line_put(line, "%s[%d, %.4f]", n ? ", " : "", (int)found[n].id,
                 (double)logits->row[chosen] - (double)found[n].logit);
    line_bytes(line, "]", 1);
}

/* One step: feed `fed`, choose a token, note when. */
static bool step(struct run *run, const struct ids *fed, const struct ids *barred, struct made *made,
                 struct trouble *trouble) {
    struct engine *engine = run->engine;
    struct logits logits = {0};
    bool first = !made->ids.count;
    int32_t token;
    int64_t before = now_ns();
    if (!engine->forward(engine, fed->items, fed->count, trouble)) return false;
    int64_t computed = now_ns();
    if (!engine->logits(engine, &logits, trouble)) return false;
    if (logits.rows != 1 && logits.rows != fed->count) {
        trouble_say(trouble, NULL, "the engine returned %zu rows of logits for %zu tokens", logits.rows, fed->count);
        return false;
    }
    const char *wrong = choose(&logits, barred, &token, first ? made->first : NULL);
    if (wrong) return trouble_say(trouble, NULL, "%s", wrong), false;
    int64_t now = now_ns();
    made->sample_ns += now - computed;
    if (first) made->prefill_ns = computed - before;
    if (run->options.margins) put_rivals(&made->margins, &logits, barred, token);
    made->times[made->ids.count] = now;
    ids_put(&made->ids, token);
    return true;
}

static bool steps(struct run *run, const struct task *task, const struct ids *prompt, struct made *made,
                  struct trouble *trouble) {
    const struct ids *stops = &run->loaded.stops;
    bool timed = strcmp(task->kind, "answer") != 0; /* has exactly as many tokens as asked for: no stop comes out */
    made->times = must_have(malloc((size_t)task->limit * sizeof *made->times), (size_t)task->limit * sizeof *made->times);
    made->finish = "length";
    while ((int64_t)made->ids.count < task->limit) {
        struct ids last = {.items = made->ids.items + (made->ids.count ? made->ids.count - 1 : 0), .count = 1};
        if (!step(run, made->ids.count ? &last : prompt, timed ? stops : NULL, made, trouble)) {
            made->finish = "error";
            if (!trouble->stage) trouble->stage = made->ids.count ? "decode" : "prefill";
            with_complaint(&trouble->message);
            return false;
        }
        if ((int64_t)made->ids.count == task->ends_after || ids_have(stops, made->ids.items[made->ids.count - 1])) {
            made->finish = "eos";
            break;
        }
    }
    return true;
}

/* The tokens' text; stop tokens are not part of it. */
static bool put_text(struct run *run, const struct ids *ids, struct trouble *trouble) {
    struct ids said = {0};
    struct line text = {0};
    for (size_t n = 0; n < ids->count; n++)
        if (!ids_have(&run->loaded.stops, ids->items[n])) ids_put(&said, ids->items[n]);
    bool good = run->engine->text(run->engine, &said, &text, trouble);
    line_key(&run->line, "text");
    line_text_upto(&run->line, line_string(&text), text.length);
    line_free(&text);
    ids_free(&said);
    return good;
}

static void put_first_logits(struct line *line, const struct rival *first) {
    line_key(line, "first_logits");
    line_bytes(line, "[", 1);
    for (size_t n = 0; n < FIRST_LOGITS && first[n].id >= 0; n++)
        line_put(line, "%s[%d, %.9g]", n ? ", " : "", (int)first[n].id, (double)first[n].logit);
    line_bytes(line, "]", 1);
}

static bool tell(struct run *run, const struct task *task, const struct question *question, size_t prompt,
                 const struct made *made, struct trouble *trouble) {
    struct line *line = &run->line;
    size_t count = made->ids.count;
    event_begin(run, "generation");
    line_put(line, ", \"index\": %lld, \"kind\": \"%s\", \"begun_ns\": %lld, \"prompt_tokens\": %zu",
             (long long)task->index, task->kind, (long long)made->started, prompt);
    line_amount(line, "generated_tokens", task->claimed >= 0 ? task->claimed : (int64_t)count);
    line_ms(line, "tokenize_ms", made->tokenize_ns);
    line_ms(line, "prefill_ms", made->prefill_ns);
    line_ms(line, "ttft_ms", count ? made->times[0] - made->started : -1);
    line_key(line, "token_ms");
    for (size_t n = 1; n < count; n++)
        line_put(line, "%s%.6f", n > 1 ? ", " : "[", (double)(made->times[n] - made->times[n - 1]) / 1e6);
    line_put(line, count > 1 ? "]" : "[]");
    line_ms(line, "sample_ms", made->sample_ns);
    line_put(line, ", \"finish\": \"%s\", \"token_ids\": ", made->finish);
    line_ids(line, &made->ids);
    bool good = put_text(run, &made->ids, trouble);
    put_first_logits(line, made->first);
    line_amount(line, "rss_bytes", resident_bytes());
    if (run->options.margins) line_put(line, ", \"margins\": [%s]", line_string(&made->margins));
    line_put(line, ", \"engine_prefill_ms\": null, \"engine_decode_ms\": null, \"engine_gen_tokens\": null");
    line_key(line, "engine_counters_null");
    line_text(line, run->engine->counters_null);
    if (question) {
        line_key(line, "question");
        line_text_upto(line, question->text, question->length);
    } else {
        line_amount(line, "context_tokens", (int64_t)run->history.count);
        line_ms(line, "context_ms", made->context_ns);
    }
    event_end(run, DECODE);
    return good;
}

static bool tokenize_question(struct run *run, const struct question *question, struct ids *ids,
                              struct trouble *trouble) {
    struct engine *engine = run->engine;
    struct line prompt = {0};
    bool good = !engine->chat || engine->chat(engine, question->text, question->length, &prompt, trouble);
    const char *text = prompt.length ? prompt.data : question->text;
    good = good && engine->tokenize(engine, text, prompt.length ? prompt.length : question->length, ids, trouble);
    line_free(&prompt);
    if (good && !ids->count) return trouble_say(trouble, "prefill", "the tokenizer makes no tokens of a question"), false;
    return good;
}

/* Bring the context to where the prompt begins; `made->started` is when the prompt was submitted. */
static bool prepare(struct run *run, const struct question *question, struct ids *asked, struct made *made,
                    struct trouble *trouble) {
    struct engine *engine = run->engine;
    int64_t before = now_ns();
    made->started = before;
    if (question) {
        if (!tokenize_question(run, question, asked, trouble)) return false;
        made->tokenize_ns = now_ns() - before;
        return engine->reset(engine, trouble);
    }
    if (!engine->reset(engine, trouble)) return false;
    if (run->history.count) {
        if (!engine->forward(engine, run->history.items, run->history.count, trouble)) {
            trouble_say(trouble, "prefill", "the engine did not compute the history");
            with_complaint(&trouble->message);
            return false;
        }
        made->context_ns = now_ns() - before;
    }
    made->started = now_ns();
    return true;
}

static void remember(struct run *run, const struct made *made) {
    size_t count = made->ids.count;
    if (!run->timed) run->first_timed_ns = made->started;
    if (!(run->timed & (run->timed - 1))) {
        size_t bytes = (size_t)(run->timed ? run->timed * 2 : 1) * sizeof *run->speeds;
        run->speeds = must_have(realloc(run->speeds, bytes), bytes);
    }
    int64_t span = count > 1 ? made->times[count - 1] - made->times[0] : 0;
    run->speeds[run->timed++] = span > 0 ? (double)(count - 1) / (double)span : 0;
}

bool generate(struct run *run, struct task *task, const struct question *question, struct trouble *trouble) {
    struct engine *engine = run->engine;
    struct made made = {.prefill_ns = -1, .tokenize_ns = -1, .context_ns = -1};
    struct ids asked = {0};
    const struct ids *prompt = question ? &asked : &run->prompt;
    for (size_t n = 0; n < FIRST_LOGITS; n++) made.first[n].id = -1;
    bool good = prepare(run, question, &asked, &made, trouble);
    if (good) {
        if (engine->begin) engine->begin(engine, task);
        good = steps(run, task, prompt, &made, trouble);
        if (made.ids.count) good = tell(run, task, question, prompt->count, &made, trouble) && good;
        if (good && !strcmp(task->kind, "timed")) remember(run, &made);
        if (good && engine->done) good = engine->done(engine, trouble);
    }
    free(made.times);
    ids_free(&made.ids);
    line_free(&made.margins);
    ids_free(&asked);
    return good;
}
