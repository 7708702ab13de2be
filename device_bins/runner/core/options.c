#include "options.h"

#include "engine.h"
#include "json.h"
#include "line.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char text_to_cut[] =
    "On the first day of the long walk they followed the river to the east, past quiet mills and gardens full of late "
    "apples. Somebody had painted small white arrows on the stones, and nobody could say who had done it. In the "
    "evening they counted the bridges they had crossed, wrote the number into a green book, and argued about whether "
    "the narrow plank behind the school should be called a bridge at all. ";

const char *const usage =
    "Times generations of a language model token by token, or runs of another model, and tells them as JSON, one\n"
    "event a line.\n\n"
    "  --model DIR            MNN model folder, or its config.json (this or --tensor is needed)\n"
    "  --tensor MODEL.mnn     a model that is no language model\n"
    "  --inputs DIR           of --tensor: index.json, and samples as raw files\n"
    "  --outputs DIR          of --tensor: where the outputs go, as raw files\n"
    "  --backend NAME         cpu, opencl, vulkan (cpu)\n"
    "  --threads N            threads; for a GPU its mode mask, passed on (4)\n"
    "  --precision LEVEL      low, normal, high (low)\n"
    "  --memory LEVEL         low, normal, high (low)\n"
    "  --engine KEY=JSON      a further key of the engine's configuration; again for more\n"
    "  --prompt-tokens N      length of the timed prompt (64)\n"
    "  --generate-tokens N    tokens of each timed generation (32)\n"
    "  --context-tokens N     history before each timed prompt (0)\n"
    "  --warmups N            generations that are not timed, first (1)\n"
    "  --repeats N            timed generations (5)\n"
    "  --cv-limit X           repeat while decode spreads more (deviation / mean) ...\n"
    "  --max-repeats N        ... up to so many timed generations\n"
    "  --duration-s X         timed generations for so long, whatever --repeats says\n"
    "  --load-rounds N        load so often; the last one is used (1)\n"
    "  --prompt-text TEXT     what the timed prompt is cut from, repeated as needed\n"
    "  --ask TEXT             a question answered after the timed generations: text, or\n"
    "                         {\"text\": ..., \"tokens\": longest answer}; again for more\n"
    "  --ask-file FILE        a file with one such question a line\n"
    "  --ask-tokens N         longest answer to a plain --ask TEXT (64)\n"
    "  --require-backend      time nothing when the engine took another backend\n"
    "  --margins              tell of every token which ones came nearest and how far behind; costs time, so the\n"
    "                         engine's own loop is left out\n"
    "  --work-dir DIR         fresh folder for the engine's caches (the current one)\n";

/* Set by options of their own, or breaks the stepping: not to be given by --engine. */
static const struct {
    const char *key, *why;
} own_keys[] = {{"backend_type", "use --backend"},
                {"thread_num", "use --threads"},
                {"precision", "use --precision"},
                {"memory", "use --memory"},
                {"tmp_path", "use --work-dir"},
                {"sampler_type", "the runner is always greedy"},
                {"speculative_type", "the runner steps token by token"},
                {"chunk_limits", "the runner needs unpadded logits"},
                {"reuse_kv", "each generation starts with an empty context"},
                {"llm_model", "use --model"},
                {"llm_weight", "use --model"},
                {"base_dir", "use --model"}};

bool read_whole(const char *text, int64_t least, int64_t *value) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < least) return false;
    *value = number;
    return true;
}

bool read_scaled(const char *text, double scale, int64_t *value) {
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !isfinite(number) || number < 0 || number * scale > 9e17) return false;
    *value = (int64_t)(number * scale + 0.5);
    return true;
}

bool read_factor(const char *text, double *factor) {
    char *end;
    *factor = strtod(text, &end);
    return end != text && !*end && isfinite(*factor) && *factor > 0;
}

/* One more place in a list that grows by doubling. */
static void *one_more(void *items, size_t count, size_t size) {
    if (count & (count - 1)) return items;
    size_t bytes = (count ? count * 2 : 1) * size;
    return must_have(realloc(items, bytes), bytes);
}

static int add_question(struct options *options, const char *text, size_t length) {
    struct question question = {.text = (char *)text, .length = length};
    struct json value = json_read(text, length, NULL), tokens = json_member(value, "tokens");
    struct line said = {0};
    if (json_string(json_member(value, "text"), &said)) {
        char digits[24] = "";
        if (tokens.length < sizeof digits && tokens.length) memcpy(digits, tokens.text, tokens.length);
        if (tokens.text && strcmp(digits, "null") && !read_whole(digits, 1, &question.tokens))
            return misuse("argument --ask: tokens in '%.*s' is not a whole number of at least 1", (int)length, text);
        question.text = said.data ? said.data : "";
        question.length = said.length;
    }
    options->asks = one_more(options->asks, options->ask_count, sizeof *options->asks);
    options->asks[options->ask_count++] = question;
    return 0;
}

/* One question a line. The lines stay in memory: questions point into them. */
static int add_question_file(struct options *options, const char *path) {
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    if (!file) return misuse("argument --ask-file: %s cannot be read: %s", path, strerror(errno));
    errno = 0;
    while ((length = getline(&line, &room, file)) > 0) {
        while (length && (line[length - 1] == '\n' || line[length - 1] == '\r')) line[--length] = '\0';
        int wrong = line[strspn(line, " \t")] ? add_question(options, line, (size_t)length) : 0;
        if (wrong) return wrong;
        line = NULL;
        room = 0;
    }
    bool read = !ferror(file);
    fclose(file);
    return read ? 0 : misuse("argument --ask-file: %s cannot be read: %s", path, strerror(errno));
}

static int add_engine(struct options *options, const char *text) {
    const char *equals = strchr(text, '=');
    if (!equals || equals == text) return misuse("argument --engine: '%s' is not KEY=JSON", text);
    struct pair pair = {text, (size_t)(equals - text), equals + 1};
    for (size_t n = 0; n < sizeof own_keys / sizeof *own_keys; n++)
        if (strlen(own_keys[n].key) == pair.key_length && !memcmp(own_keys[n].key, text, pair.key_length))
            return misuse("argument --engine: %s cannot be set here: %s", own_keys[n].key, own_keys[n].why);
    if (!json_read(pair.value, strlen(pair.value), NULL).text)
        return misuse("argument --engine: the value of %.*s is not JSON: '%s'", (int)pair.key_length, text, pair.value);
    options->engine = one_more(options->engine, options->engine_count, sizeof *options->engine);
    options->engine[options->engine_count++] = pair;
    return 0;
}

static int choose_word(const char *name, const char *value, const char *const words[3], const char **chosen) {
    for (size_t n = 0; n < 3; n++)
        if (!strcmp(words[n], value)) return *chosen = words[n], 0;
    return misuse("argument %s: '%s' is none of %s, %s, %s", name, value, words[0], words[1], words[2]);
}

static int read_option(struct options *options, struct engine *engine, const char *name, const char *value) {
    static const char *const backends[] = {"cpu", "opencl", "vulkan"}, *const levels[] = {"low", "normal", "high"};
    const struct {
        const char *name;
        int64_t least;
        int64_t *value;
    } numbers[] = {{"--threads", 1, &options->threads},
                   {"--prompt-tokens", 1, &options->prompt_tokens},
                   {"--context-tokens", 0, &options->context_tokens},
                   {"--generate-tokens", 1, &options->generate_tokens},
                   {"--warmups", 0, &options->warmups},
                   {"--repeats", 0, &options->repeats},
                   {"--max-repeats", 0, &options->max_repeats},
                   {"--load-rounds", 1, &options->load_rounds},
                   {"--ask-tokens", 1, &options->ask_tokens}};
    const struct {
        const char *name;
        const char **value;
    } texts[] = {{"--model", &options->model},
                 {"--tensor", &options->tensor},
                 {"--inputs", &options->inputs},
                 {"--outputs", &options->outputs},
                 {"--prompt-text", &options->prompt_text},
                 {"--work-dir", &options->work_dir}};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++)
        if (!strcmp(name, numbers[n].name)) {
            if (read_whole(value, numbers[n].least, numbers[n].value)) return 0;
            return misuse("argument %s: '%s' is not a whole number of at least %d", name, value, (int)numbers[n].least);
        }
    for (size_t n = 0; n < sizeof texts / sizeof *texts; n++)
        if (!strcmp(name, texts[n].name)) return *texts[n].value = value, 0;
    if (!strcmp(name, "--backend")) return choose_word(name, value, backends, &options->backend);
    if (!strcmp(name, "--precision")) return choose_word(name, value, levels, &options->precision);
    if (!strcmp(name, "--memory")) return choose_word(name, value, levels, &options->memory);
    if (!strcmp(name, "--duration-s")) {
        if (read_scaled(value, 1e9, &options->duration_ns) && options->duration_ns) return 0;
        return misuse("argument --duration-s: '%s' is not a number above 0", value);
    }
    if (!strcmp(name, "--cv-limit")) {
        if (read_factor(value, &options->cv_limit)) return 0;
        return misuse("argument --cv-limit: '%s' is not a number above 0", value);
    }
    if (!strcmp(name, "--ask")) return add_question(options, value, strlen(value));
    if (!strcmp(name, "--engine")) return add_engine(options, value);
    int taken = engine->option ? engine->option(engine, name, value) : -1;
    return taken >= 0 ? taken : misuse("unknown option %s (--help lists the options)", name);
}

/* Options that are named only. */
static bool read_flag(struct options *options, const char *word) {
    const struct {
        const char *name;
        bool *value;
    } flags[] = {{"--require-backend", &options->require_backend},
                 {"--margins", &options->margins},
                 {"--help", &options->help},
                 {"-h", &options->help}};
    for (size_t n = 0; n < sizeof flags / sizeof *flags; n++)
        if (!strcmp(word, flags[n].name)) return *flags[n].value = true;
    return false;
}

int read_options(struct options *options, struct engine *engine, int count, char **words) {
    const char *question_file = NULL;
    *options = (struct options){.backend = "cpu", .precision = "low", .memory = "low", .prompt_text = text_to_cut,
                                .threads = 4, .prompt_tokens = 64, .generate_tokens = 32, .warmups = 1, .repeats = 5,
                                .load_rounds = 1, .ask_tokens = 64};
    for (int at = 1; at < count; at++) {
        const char *equals = strchr(words[at], '=');
        size_t length = equals ? (size_t)(equals - words[at]) : strlen(words[at]);
        char name[32];
        if (read_flag(options, words[at])) continue;
        if (strncmp(words[at], "--", 2) || length >= sizeof name)
            return misuse("unknown option %s (--help lists the options)", words[at]);
        memcpy(name, words[at], length);
        name[length] = '\0';
        const char *value = equals ? equals + 1 : at + 1 < count ? words[++at] : NULL;
        if (!value && options->help) continue;
        if (!value) return misuse("%s needs a value, or is no option (--help lists the options)", name);
        if (!strcmp(name, "--ask-file")) {
            question_file = value;
            continue;
        }
        int wrong = read_option(options, engine, name, value);
        if (wrong) return wrong;
    }
    if (options->help) return 0;
    if (!options->model && !options->tensor)
        return misuse("--model is needed, or --tensor (--help lists the options)");
    if (options->model && options->tensor) return misuse("--model and --tensor exclude each other");
    if (!options->tensor != !options->inputs || !options->tensor != !options->outputs)
        return misuse("--tensor, --inputs and --outputs belong together");
    if (options->tensor && !engine->tensor_load)
        return misuse("the %s engine runs language models only: --tensor is not for it", engine->name);
    return question_file ? add_question_file(options, question_file) : 0; /* its questions come after all others */
}
