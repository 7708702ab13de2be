// The engine: MNN's language model, stepped token by token.
//
// It is written for MNN 3.2 and newer. What older headers of those have otherwise is chosen by the compiler: see
// `load_it`.
#include "backend.hpp"
#include "clock.h"
#include "guarded.hpp"
#include "json.h"
#include "model_files.h"
#include "process.h"
#include "tensors.hpp"

#include <MNN/Interpreter.hpp>

#include <cstring>
#include <string>
#include <vector>

using MNN::Transformer::Llm;

namespace {

struct State {
    Llm *llm;
    MNN::Express::VARP logits; // of the last forward
    size_t fed;                // tokens in the context
    size_t forwards;           // of this prompt
};

State *state_of(struct engine *engine) { return static_cast<State *>(engine->state); }

// --- loading ---

void put_key(struct line *keys, const char *key, const char *json) {
    line_put(keys, "%s\"%s\": %s", keys->length > 1 ? ", " : "", key, json);
}

// Whether the key is given by --engine, from the pair `first` on: the last one counts.
bool is_given(const struct options *options, size_t first, const char *key, size_t length) {
    for (size_t n = first; n < options->engine_count; n++)
        if (options->engine[n].key_length == length && !memcmp(options->engine[n].key, key, length)) return true;
    return false;
}

void put_text_key(struct line *keys, const struct options *options, const char *key, const char *text) {
    if (is_given(options, 0, key, strlen(key))) return;
    struct line quoted = {};
    line_text(&quoted, text);
    put_key(keys, key, line_string(&quoted));
    line_free(&quoted);
}

void put_json_key(struct line *keys, const struct options *options, const char *key, const char *json) {
    if (!is_given(options, 0, key, strlen(key))) put_key(keys, key, json);
}

// The configuration that the engine is given on top of the model's own.
std::string configuration(const struct options *options, const struct ids *stops) {
    struct line keys = {}, banned = {};
    line_ids(&banned, stops);
    line_put(&keys, "{");
    put_text_key(&keys, options, "backend_type", options->backend);
    put_json_key(&keys, options, "thread_num", std::to_string(options->threads).c_str());
    put_text_key(&keys, options, "precision", options->precision);
    put_text_key(&keys, options, "memory", options->memory);
    put_text_key(&keys, options, "sampler_type", "greedy");
    put_json_key(&keys, options, "async", "false"); // forward() returns when the logits are there
    put_json_key(&keys, options, "reuse_kv", "false");
    put_text_key(&keys, options, "speculative_type", "");
    put_text_key(&keys, options, "tmp_path", options->work_dir);
    put_text_key(&keys, options, "prefix_cache_path", (std::string(options->work_dir) + "/prefixcache").c_str());
    put_json_key(&keys, options, "banned_tokens", line_string(&banned));
    for (size_t n = 0; n < options->engine_count; n++) {
        const struct pair *pair = &options->engine[n];
        if (!is_given(options, n + 1, pair->key, pair->key_length))
            put_key(&keys, std::string(pair->key, pair->key_length).c_str(), pair->value);
    }
    line_put(&keys, "}");
    std::string text(keys.data, keys.length);
    line_free(&keys);
    line_free(&banned);
    return text;
}

// Older engines do not say whether they loaded; what they compute is looked at anyway.
template <class L> auto load_it(L *llm, int) -> decltype(static_cast<bool>(llm->load())) { return llm->load(); }
template <class L> bool load_it(L *llm, long) {
    llm->load();
    return true;
}

bool load_model(struct engine *engine, const struct options *options, const char *config_path, struct loaded *loaded,
                struct trouble *trouble) {
    State *state = state_of(engine);
    std::string keys = configuration(options, &loaded->stops);
    load_backend_library(options->backend);
    loaded->begun_ns = now_ns();
    state->llm = Llm::createLLM(config_path);
    if (!state->llm) return trouble_say(trouble, nullptr, "the engine did not take %s", config_path), false;
    state->llm->set_config(keys);
    bool good = load_it(state->llm, 0);
    loaded->took_ns = now_ns() - loaded->begun_ns;
    if (!good) return trouble_say(trouble, nullptr, "the engine did not load %s", config_path), false;
    std::string dump = state->llm->dump_config();
    struct json config = json_read(dump.data(), dump.size(), nullptr);
    if (!json_is_object(config)) return trouble_say(trouble, nullptr, "the engine's configuration is not JSON"), false;
    json_without(config, "jinja", &loaded->config);
    prove_backend(state->llm, options->backend, config, loaded);
    return true;
}

bool load(struct engine *engine, const struct options *options, struct loaded *loaded, struct trouble *trouble) {
    struct model_files files = {};
    bool good = check_model(options->model, &files, trouble);
    if (good) {
        loaded->stops = files.stops;
        files.stops = {};
        loaded->rss_before_bytes = resident_bytes();
        good = guarded(trouble, [&] {
            return load_model(engine, options, line_string(&files.config), loaded, trouble);
        });
    }
    model_files_free(&files);
    return good;
}

void unload(struct engine *engine) {
    State *state = state_of(engine);
    state->logits = nullptr;
    delete state->llm;
    state->llm = nullptr;
    unload_tensors();
}

// --- generating ---

bool tokenize(struct engine *engine, const char *text, size_t length, struct ids *ids, struct trouble *trouble) {
    return guarded(trouble, [&] {
        for (int id : state_of(engine)->llm->tokenizer_encode(std::string(text, length))) ids_put(ids, id);
        return true;
    });
}

bool chat(struct engine *engine, const char *text, size_t length, struct line *prompt, struct trouble *trouble) {
    return guarded(trouble, [&] {
        std::string asked = state_of(engine)->llm->apply_chat_template(std::string(text, length));
        line_bytes(prompt, asked.data(), asked.size());
        return true;
    });
}

bool reset(struct engine *engine, struct trouble *trouble) {
    return guarded(trouble, [&] {
        State *state = state_of(engine);
        state->logits = nullptr;
        state->fed = 0;
        state->forwards = 0;
        state->llm->reset();
        state->llm->generate_init();
        return true;
    });
}

void begin(struct engine *engine, struct task *) { state_of(engine)->forwards = 0; }

// The engine's own loop tells a GPU's command queue when the prompt is done; so do we, where the engine has that.
template <class L> auto tell_stage(L *llm, size_t forwards, int) -> decltype(llm->switchMode(L::Decode), void()) {
    if (forwards < 2) llm->switchMode(forwards ? L::Decode : L::Prefill);
}
template <class L> void tell_stage(L *, size_t, long) {}

bool forward(struct engine *engine, const int32_t *ids, size_t count, struct trouble *trouble) {
    return guarded(trouble, [&] {
        State *state = state_of(engine);
        tell_stage(state->llm, state->forwards++, 0);
        state->logits = state->llm->forward(std::vector<int>(ids, ids + count));
        state->fed += count;
        // A failed forward hands out a variable without content, and touching that one crashes.
        if (state->logits.get() && state->llm->getCurrentHistory() == state->fed) return true;
        trouble_say(trouble, nullptr, "the engine computed nothing");
        return false;
    });
}

bool last_row(struct engine *engine, struct logits *logits, struct trouble *trouble) {
    return guarded(trouble, [&] {
        State *state = state_of(engine);
        auto info = state->logits->getInfo();
        const float *values = info && !info->dim.empty() ? state->logits->readMap<float>() : nullptr;
        if (!values || info->dim.back() <= 0 || info->size <= 0)
            return trouble_say(trouble, nullptr, "the engine gave no logits"), false;
        logits->count = static_cast<size_t>(info->dim.back());
        logits->rows = static_cast<size_t>(info->size) / logits->count;
        logits->row = values + (logits->rows - 1) * logits->count;
        return true;
    });
}

bool put_text(struct engine *engine, const struct ids *ids, struct line *text, struct trouble *trouble) {
    return guarded(trouble, [&] {
        for (size_t n = 0; n < ids->count; n++) {
            std::string piece = state_of(engine)->llm->tokenizer_decode(ids->items[n]);
            line_bytes(text, piece.data(), piece.size());
        }
        return true;
    });
}

bool own_loop(struct engine *engine, const struct ids *prompt, int64_t limit, struct loop *loop,
              struct trouble *trouble) {
    return reset(engine, trouble) && guarded(trouble, [&] {
        Llm *llm = state_of(engine)->llm;
        std::vector<int> fed(prompt->items, prompt->items + prompt->count);
        for (int id : llm->generate(fed, static_cast<int>(limit))) ids_put(&loop->ids, id);
        const auto *context = llm->getContext();
        loop->generated = context->gen_seq_len;
        loop->prefill_us = context->prefill_us;
        loop->decode_us = context->decode_us;
        loop->sample_us = context->sample_us;
        return true;
    });
}

} // namespace

extern "C" struct engine *engine_here(void) {
    static State state;
    static struct engine engine;
    engine.runner = "farm_runner";
    engine.name = "MNN";
    engine.version = MNN::getVersion();
    engine.prints = true;
    engine.cache_name = "mnn_cachefile.bin";
    engine.counters_null = "stepping does not move the engine's counters; see end.engine_loop";
    engine.state = &state;
    engine.load = load;
    engine.unload = unload;
    engine.tokenize = tokenize;
    engine.chat = chat;
    engine.reset = reset;
    engine.begin = begin;
    engine.forward = forward;
    engine.logits = last_row;
    engine.text = put_text;
    engine.loop = own_loop;
    engine.tensor_load = load_tensors;
    engine.tensor_fit = fit_tensors;
    engine.tensor_run = run_tensors;
    engine.tensor_output = output_of_tensors;
    return &engine;
}
