// An engine that plays: a token is a byte, and after one comes the next letter.
#include <MNN/Interpreter.hpp>
#include <llm/llm.hpp>

#include <cstdio>
#include <stdexcept>

#define PLAYED "9.8.7"

// What tells the version and the parts of a real engine.
__attribute__((used)) extern const char told[] = "\0Can't Find type=%d backend, use %d instead\n\0" PLAYED "\0llm_config.json\0";

namespace MNN {

const char *getVersion() { return PLAYED; }
Interpreter *Interpreter::createFromBuffer(const void *, size_t) { return new Interpreter; }
Interpreter *Interpreter::createFromFile(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file) fclose(file);
    return file ? new Interpreter : nullptr;
}
Session *Interpreter::createSession(const ScheduleConfig &config) {
    if (config.type != MNN_FORWARD_CPU) printf("Can't Find type=%d backend, use 0 instead\n", config.type);
    return reinterpret_cast<Session *>(this);
}
bool Interpreter::getSessionInfo(const Session *, SessionInfoCode code, void *told) {
    *static_cast<int *>(told) = code == BACKENDS ? 13 : 0;
    return true;
}
ErrorCode Interpreter::runSession(Session *) const {
    Tensor *doubled = made.at("y");
    for (size_t n = 0; n < doubled->values.size(); n++) doubled->values[n] = 2 * fed.at("x")->values[n];
    return NO_ERROR;
}

namespace Transformer {

using Express::VARP;
using Express::Variable;

bool Llm::Runtime::getInfo(Interpreter::SessionInfoCode, void *told) {
    *static_cast<int *>(told) = backend;
    return true;
}
Llm *Llm::createLLM(const std::string &) { return new Llm; }
bool Llm::set_config(const std::string &given) {
    keys = given;
    return true;
}
bool Llm::load() {
    puts("toy engine: loading");
    mRuntimeManager.reset(new Runtime);
    return keys.find("\"refuse\": true") == std::string::npos;
}
std::string Llm::dump_config() { return keys.substr(0, keys.size() - 1) + ",\n  \"jinja\": {\"chat_template\": \"x\"}}"; }
void Llm::reset() { held = 0; }
void Llm::generate_init(std::ostream *, const char *) { held = 0; }
VARP Llm::forward(const std::vector<int> &ids, bool) {
    if (ids.back() == '!') throw std::runtime_error("no such letter");
    if (ids.back() == '?') return nullptr;
    held += ids.size();
    VARP made(new Variable);
    made->info.dim = {1, 1, 128};
    made->info.size = 128;
    made->values.assign(128, -1.0f);
    made->values[ids.back() >= 'z' || ids.back() < 'a' ? 'a' : ids.back() + 1] = 2.0f;
    return made;
}
std::vector<int> Llm::generate(const std::vector<int> &ids, int most) {
    std::vector<int> made;
    int last = ids.back();
    for (context.gen_seq_len = 0; context.gen_seq_len < most; context.gen_seq_len++)
        made.push_back(last = last >= 'z' || last < 'a' ? 'a' : last + 1);
    context.prefill_us = 10;
    context.decode_us = 20;
    return made;
}
std::vector<int> Llm::tokenizer_encode(const std::string &text) {
    std::vector<int> ids{1};
    for (char letter : text) ids.push_back(letter & 0x7f);
    return ids;
}
std::string Llm::tokenizer_decode(int token) { return std::string(1, static_cast<char>(token)); }
std::string Llm::apply_chat_template(const std::string &question) const { return "user: " + question; }

} // namespace Transformer
} // namespace MNN
