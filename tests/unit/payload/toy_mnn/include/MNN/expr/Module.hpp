#pragma once
#include <MNN/expr/Executor.hpp>
#include <MNN/expr/ExprCreator.hpp>
#include <memory>
#include <string>
#include <vector>

namespace MNN {
namespace Express {

// No model is one.
struct Module {
    struct Info {
        std::vector<Variable::Info> inputs;
        std::vector<std::string> inputNames, outputNames;
    };
    static Module *load(const std::vector<std::string> &, const std::vector<std::string> &, const char *) { return nullptr; }
    static Module *load(const std::vector<std::string> &, const std::vector<std::string> &, const char *,
                        const std::shared_ptr<Executor::RuntimeManager>) {
        return nullptr;
    }
    static void destroy(Module *module) { delete module; }
    const Info *getInfo() const { return nullptr; }
    std::vector<VARP> onForward(const std::vector<VARP> &) { return {}; }
};

} // namespace Express
} // namespace MNN
