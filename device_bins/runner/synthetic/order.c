#include "order.h"

#include "line.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct word {
    const char *name;
    int value;
};

static bool read_whole(const char *text, int64_t least, int64_t *value) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < least) return false;
    *value = number;
    return true;
}

/* A number with a fraction, times `scale`. */
static bool read_scaled(const char *text, double scale, int64_t *value) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !isfinite(number) || number < 0 || number * scale > 9e17) return false;
    *value = (int64_t)(number * scale + 0.5);
    return true;
}

static bool read_word(const char *text, const struct word *words, int *value) {
    for (; words->name; words++)
        if (!strcmp(words->name, text)) return *value = words->value, true;
    return false;
}

/* ---- --synthetic KEY=VALUE ---- */

static const struct word modes[] = {{"sleep", SLEEP}, {"spin", SPIN}, {"work", WORK}, {NULL, 0}};
static const struct word stages[] = {{"start", START}, {"load", LOAD}, {"prefill", PREFILL}, {"decode", DECODE},
                                     {"end", END},     {NULL, 0}};
static const struct word faults[] = {{"hang", HANG},       {"exit", EXIT},         {"error", ERROR},
                                     {"garbage", GARBAGE}, {"non_utf8", NON_UTF8}, {"truncate", TRUNCATE},
                                     {NULL, 0}};
static const struct word signals[] = {{"SIGSEGV", SIGSEGV}, {"SIGILL", SIGILL},   {"SIGABRT", SIGABRT},
                                      {"SIGBUS", SIGBUS},   {"SIGKILL", SIGKILL}, {NULL, 0}};

static bool read_ids(struct order *order, const char *text) {
    char *end = NULL;
    for (order->id_count = 0; order->id_count < MAX_IDS; text = end + 1) {
        long long id = strtoll(text, &end, 10);
        if (end == text || id < 0) return false;
        order->token_ids[order->id_count++] = id;
        if (*end != ',') return !*end;
    }
    return false;
}

static bool read_finish(struct order *order, const char *text) {
    if (!strcmp(text, "length")) return order->eos_after = 0, true;
    return !strncmp(text, "eos:", 4) && read_whole(text + 4, 1, &order->eos_after);
}

static bool read_fault(struct order *order, const char *text) {
    int word;
    if (read_word(text, signals, &order->signal_number)) return order->fault = SIGNAL, true;
    if (!read_word(text, faults, &word)) return false;
    return order->fault = (enum fault)word, true;
}

static bool read_factor(const char *text, double *factor) {
    char *end;
    *factor = strtod(text, &end);
    return end != text && !*end && isfinite(*factor) && *factor > 0;
}

static bool read_share(const char *text, double *share) { return read_factor(text, share) && *share < 1; }

static int read_truth(struct order *order, const char *word) {
    const struct {
        const char *key;
        double scale;
        int64_t *value;
    } amounts[] = {
        {"load_ms", 1e6, &order->load_ns},
        {"prefill_ms", 1e6, &order->prefill_ns},
        {"prefill_token_ms", 1e6, &order->prefill_token_ns},
        {"first_token_ms", 1e6, &order->first_token_ns},
        {"token_ms", 1e6, &order->token_ns},
        {"slow_after_s", 1e9, &order->slow_after_ns},
        {"peak_mb", 1048576, &order->peak_bytes},
        {"leak_mb_per_gen", 1048576, &order->leak_bytes},
        {"short_tokens", 1, &order->short_by},
        {"fallback_marker", 1, NULL},
        {"exit_code", 1, &order->exit_code},
        {"at_generation", 1, &order->at_generation},
        {"noisy_generations", 1, &order->noisy_generations},
    };
    const struct {
        const char *key;
        const char **value;
    } texts[] = {{"text", &order->text},
                 {"answer", &order->answer},
                 {"backend_actual", &order->backend_actual},
                 {"backend_strength", &order->strength},
                 {"backend_proof", &order->proof}};
    const char *equals = strchr(word, '=');
    if (!equals || equals == word) return misuse("--synthetic takes KEY=VALUE; got %s", word);
    if (order->given_count == MAX_WORDS) return misuse("more than %d times --synthetic", MAX_WORDS);
    size_t length = (size_t)(equals - word);
    const char *value = equals + 1;
    int number = 0;
    bool good = false;
#define IS(name) (length == strlen(name) && !strncmp(word, name, length))
    order->given[order->given_count++] = (struct pair){word, length, value};
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++) {
        int64_t flag = 0;
        if (!IS(amounts[i].key)) continue;
        if (!read_scaled(value, amounts[i].scale, amounts[i].value ? amounts[i].value : &flag))
            return misuse("--synthetic %s is no number of at least 0", word);
        if (!amounts[i].value) order->fallback_marker = flag != 0;
        return 0;
    }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!IS(texts[i].key)) continue;
        *texts[i].value = value;
        return 0;
    }
    if (IS("mode") && (good = read_word(value, modes, &number))) order->mode = (enum mode)number;
    else if (IS("at") && (good = read_word(value, stages, &number))) order->at = (enum stage)number;
    else if (IS("slow_factor")) good = read_factor(value, &order->slow_factor);
    else if (IS("noise")) good = read_share(value, &order->noise);
    else if (IS("token_ids")) good = read_ids(order, value);
    else if (IS("finish")) good = read_finish(order, value);
    else if (IS("fault")) good = read_fault(order, value);
#undef IS
    if (good) return 0;
    return misuse("--synthetic %s is no order: keys are load_ms, prefill_ms, prefill_token_ms, first_token_ms, "
                  "token_ms, mode (sleep, spin, work), slow_after_s, slow_factor, noise (a share below 1), "
                  "noisy_generations, peak_mb, leak_mb_per_gen, text, answer, token_ids (N,N), finish (length, eos:N), short_tokens, backend_actual, backend_strength, "
                  "backend_proof, fallback_marker, fault (hang, exit, error, garbage, non_utf8, truncate, SIGSEGV, "
                  "SIGILL, SIGABRT, SIGBUS, SIGKILL), exit_code, at (start, load, prefill, decode, end), at_generation",
                  word);
}

/* ---- farm_runner's options ---- */

/* The end of the JSON string that begins at `text`, or NULL. */
static const char *string_end(const char *text) {
    if (*text != '"') return NULL;
    for (text++; *text && *text != '"'; text++)
        if (*text == '\\' && !*++text) return NULL;
    return *text ? text + 1 : NULL;
}

/* {"text": ..., "tokens": ...} in any order and nothing else; whatever is not that is a plain question. */
static bool read_json_question(struct question *question, const char *text) {
    static const char blank[] = " \t\r\n";
    text += strspn(text, blank);
    if (*text++ != '{') return false;
    for (;;) {
        text += strspn(text, blank);
        const char *key = text, *end = string_end(text);
        if (!end) return false;
        text = end + strspn(end, blank);
        if (*text++ != ':') return false;
        text += strspn(text, blank);
        if (!strncmp(key, "\"text\"", 6)) {
            end = string_end(text);
            if (!end) return false;
            question->text = text;
            question->raw_length = (size_t)(end - text);
        } else if (!strncmp(key, "\"tokens\"", 8)) {
            char *after;
            question->tokens = strncmp(text, "null", 4) ? strtoll(text, &after, 10) : (after = (char *)text + 4, 0);
            if (after == text) return false;
            end = after;
        } else {
            return false;
        }
        text = end + strspn(end, blank);
        if (*text == '}') return question->raw_length && !text[1 + strspn(text + 1, blank)];
        if (*text++ != ',') return false;
    }
}

static int add_question(struct order *order, const char *text) {
    if (order->ask_count == MAX_QUESTIONS) return misuse("more than %d questions", MAX_QUESTIONS);
    struct question *question = &order->asks[order->ask_count++];
    if (!read_json_question(question, text)) *question = (struct question){.text = text};
    return 0;
}

/* One question a line. The lines stay in memory: questions point into them. */
static int add_question_file(struct order *order, const char *path) {
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    if (!file) return misuse("%s cannot be read: %s", path, strerror(errno));
    while ((length = getline(&line, &room, file)) > 0) {
        line[strcspn(line, "\r\n")] = '\0';
        int wrong = line[strspn(line, " \t")] ? add_question(order, line) : 0;
        if (wrong) return wrong;
        line = NULL;
        room = 0;
    }
    fclose(file);
    return 0;
}

static int add_engine(struct order *order, const char *text) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1]) return misuse("%s is not KEY=JSON", text);
    if (order->engine_count == MAX_WORDS) return misuse("more than %d engine keys", MAX_WORDS);
    order->engine[order->engine_count++] = (struct pair){text, (size_t)(equals - text), equals + 1};
    return 0;
}

static int read_option(struct order *order, const char *name, const char *value) {
    const struct {
        const char *name;
        int64_t least;
        int64_t *value;
    } numbers[] = {{"--threads", 1, &order->threads},
                   {"--prompt-tokens", 1, &order->prompt_tokens},
                   {"--context-tokens", 0, &order->context_tokens},
                   {"--generate-tokens", 1, &order->generate_tokens},
                   {"--warmups", 0, &order->warmups},
                   {"--repeats", 0, &order->repeats},
                   {"--max-repeats", 0, &order->max_repeats},
                   {"--load-rounds", 1, &order->load_rounds},
                   {"--ask-tokens", 1, &order->ask_tokens}};
    const struct {
        const char *name;
        const char **value;
    } texts[] = {{"--model", &order->model},
                 {"--backend", &order->backend},
                 {"--precision", &order->precision},
                 {"--memory", &order->memory},
                 {"--prompt-text", NULL},
                 {"--work-dir", NULL}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!strcmp(name, numbers[i].name)) {
            if (read_whole(value, numbers[i].least, numbers[i].value)) return 0;
            return misuse("%s takes a whole number of at least %d; got %s", name, (int)numbers[i].least, value);
        }
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strcmp(name, texts[i].name)) {
            if (texts[i].value) *texts[i].value = value;
            return 0;
        }
    if (!strcmp(name, "--duration-s")) {
        if (read_scaled(value, 1e9, &order->duration_ns) && order->duration_ns) return 0;
        return misuse("--duration-s takes a number above 0; got %s", value);
    }
    if (!strcmp(name, "--cv-limit")) {
        if (read_factor(value, &order->cv_limit)) return 0;
        return misuse("--cv-limit takes a number above 0; got %s", value);
    }
    if (!strcmp(name, "--ask-file")) return add_question_file(order, value);
    if (!strcmp(name, "--ask")) return add_question(order, value);
    if (!strcmp(name, "--engine")) return add_engine(order, value);
    if (!strcmp(name, "--synthetic")) return read_truth(order, value);
    return misuse("unknown option %s: it takes those of farm_runner and --synthetic KEY=VALUE", name);
}

int read_order(struct order *order, int count, char **words) {
    *order = (struct order){.backend = "cpu", .precision = "low", .memory = "low", .threads = 4, .prompt_tokens = 64,
                            .generate_tokens = 32, .warmups = 1, .repeats = 5, .load_rounds = 1, .ask_tokens = 64, .load_ns = 20000000,
                            .prefill_ns = -1, .prefill_token_ns = -1, .first_token_ns = 100000, .token_ns = 2000000,
                            .slow_after_ns = -1, .slow_factor = 1.0, .at = DECODE};
    for (int at = 1; at < count; at++) {
        const char *equals = strchr(words[at], '=');
        char name[32];
        const char *value;
        if (!strcmp(words[at], "--require-backend")) {
            order->require_backend = true;
            continue;
        }
        if (!strncmp(words[at], "--", 2) && equals && (size_t)(equals - words[at]) < sizeof name) {
            memcpy(name, words[at], (size_t)(equals - words[at]));
            name[equals - words[at]] = '\0';
            value = equals + 1;
        } else {
            if (strlen(words[at]) >= sizeof name) return misuse("unknown option %s", words[at]);
            memcpy(name, words[at], strlen(words[at]) + 1);
            if (at + 1 == count) return misuse("%s needs a value, or is no option", words[at]);
            value = words[++at];
        }
        int wrong = read_option(order, name, value);
        if (wrong) return wrong;
    }
    if (order->prefill_ns < 0 && order->prefill_token_ns < 0) order->prefill_token_ns = 100000;
    if (order->prefill_ns < 0) order->prefill_ns = 0;
    if (order->prefill_token_ns < 0) order->prefill_token_ns = 0;
    return order->model ? 0 : misuse("--model is needed");
}
