#pragma once
#include <MNN/Interpreter.hpp>
#include <MNN/expr/ExprCreator.hpp>
#include <ostream>
#include <string>

namespace MNN {
namespace Transformer {

struct LlmContext {
    int gen_seq_len = 0;
    int64_t prefill_us = 0, decode_us = 0, sample_us = 0;
};

class Llm {
  public:
    struct Runtime {
        bool getInfo(Interpreter::SessionInfoCode code, void *told);
        int backend = 0;
    };
    static Llm *createLLM(const std::string &config);
    virtual ~Llm() {}
    virtual bool load();
    bool set_config(const std::string &keys);
    std::string dump_config();
    void reset();
    virtual void generate_init(std::ostream *os = nullptr, const char *end_with = nullptr);
    Express::VARP forward(const std::vector<int> &ids, bool is_prefill = true);
    size_t getCurrentHistory() const { return held; }
    std::vector<int> generate(const std::vector<int> &ids, int most);
    std::vector<int> tokenizer_encode(const std::string &text);
    std::string tokenizer_decode(int token);
    std::string apply_chat_template(const std::string &question) const;
    const LlmContext *getContext() const { return &context; }

  protected:
    std::shared_ptr<Runtime> mRuntimeManager;

  private:
    std::string keys;
    size_t held = 0;
    LlmContext context;
};

} // namespace Transformer
} // namespace MNN
