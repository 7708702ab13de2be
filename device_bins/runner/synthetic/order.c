#include "order.h"

#include "line.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct word {
    const char *name;
    int value;
};

static bool read_word(const char *text, const struct word *words, int *value) {
    for (; words->name; words++)
        if (!strcmp(words->name, text)) return *value = words->value, true;
    return false;
}

static const struct word modes[] = {{"sleep", SLEEP}, {"spin", SPIN}, {"work", WORK}, {NULL, 0}};
static const struct word stages[] = {{"start", START}, {"load", LOAD}, {"prefill", PREFILL}, {"decode", DECODE},
                                     {"end", END},     {NULL, 0}};
static const struct word spoilt[] = {{"fine", FINE}, {"nan", NOT_A_NUMBER}, {"inf", INFINITE}, {"zero", ZERO}, {NULL, 0}};
static const struct word faults[] = {{"hang", HANG},       {"exit", EXIT},         {"error", ERROR},
                                     {"garbage", GARBAGE}, {"non_utf8", NON_UTF8}, {"truncate", TRUNCATE},
                                     {NULL, 0}};
static const struct word signals[] = {{"SIGSEGV", SIGSEGV}, {"SIGILL", SIGILL},   {"SIGABRT", SIGABRT},
                                      {"SIGBUS", SIGBUS},   {"SIGKILL", SIGKILL}, {NULL, 0}};

static bool read_ids(struct ids *ids, const char *text) {
    char *end = NULL;
    for (ids->count = 0; ids->count < MAX_IDS; text = end + 1) {
        long id = strtol(text, &end, 10);
        if (end == text || id < 0 || id > LARGEST_ID) return false;
        ids_put(ids, (int32_t)id);
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

static bool read_share(const char *text, double *share) { return read_factor(text, share) && *share < 1; }

int read_order(struct order *order, const char *word) {
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
        {"fallback_marker", 1, &order->fallback_marker},
        {"check_model", 1, &order->check_model},
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
        if (!IS(amounts[i].key)) continue;
        if (read_scaled(value, amounts[i].scale, amounts[i].value)) return 0;
        return misuse("--synthetic %s is no number of at least 0", word);
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
    else if (IS("token_ids")) good = read_ids(&order->token_ids, value);
    else if (IS("stops")) good = read_ids(&order->stops, value);
    else if (IS("logits") && (good = read_word(value, spoilt, &number))) order->logits = (enum spoilt)number;
    else if (IS("finish")) good = read_finish(order, value);
    else if (IS("fault")) good = read_fault(order, value);
#undef IS
    if (good) return 0;
    return misuse("--synthetic %s is no order: keys are load_ms, prefill_ms, prefill_token_ms, first_token_ms, "
                  "token_ms, mode (sleep, spin, work), slow_after_s, slow_factor, noise (a share below 1), "
                  "noisy_generations, peak_mb, leak_mb_per_gen, text, answer, token_ids (N,N), stops (N,N), logits (fine, "
                  "nan, inf, zero), finish (length, eos:N), short_tokens, check_model, backend_actual, "
                  "backend_strength, backend_proof, fallback_marker, fault (hang, exit, error, garbage, non_utf8, truncate, SIGSEGV, "
                  "SIGILL, SIGABRT, SIGBUS, SIGKILL), exit_code, at (start, load, prefill, decode, end), at_generation",
                  word);
}

void settle_order(struct order *order) {
    if (order->prefill_ns < 0 && order->prefill_token_ns < 0) order->prefill_token_ns = 100000;
    if (order->prefill_ns < 0) order->prefill_ns = 0;
    if (order->prefill_token_ns < 0) order->prefill_token_ns = 0;
}
