#include "backend.hpp"

#include "hearing.h"

#include <MNN/Interpreter.hpp>
#include <MNN/expr/ExprCreator.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

using MNN::Transformer::Llm;

// MNN's numbers for backends; 13 is the CPU backend with its half-precision or int8 extension.
const char *backend_name(int code) {
    switch (code) {
    case 0:
    case 13:
        return "cpu";
    case 1:
        return "metal";
    case 2:
        return "cuda";
    case 3:
        return "opencl";
    case 5:
        return "nnapi";
    case 6:
        return "opengl";
    case 7:
        return "vulkan";
    default:
        return "another";
    }
}

MNNForwardType forward_type(const char *backend) {
    return !strcmp(backend, "opencl") ? MNN_FORWARD_OPENCL : !strcmp(backend, "vulkan") ? MNN_FORWARD_VULKAN : MNN_FORWARD_CPU;
}

namespace {

const int SESSION_CODE_UNKNOWN = -1;

} // namespace

int session_code(const char *backend) {
    using namespace MNN::Express;
    std::vector<int8_t> graph = Variable::save({_Sqrt(_Input({1, 4}, NCHW))});
    std::shared_ptr<MNN::Interpreter> interpreter(MNN::Interpreter::createFromBuffer(graph.data(), graph.size()));
    MNN::ScheduleConfig config;
    int codes[16] = {SESSION_CODE_UNKNOWN};
    if (!interpreter) return SESSION_CODE_UNKNOWN;
    config.type = forward_type(backend);
    config.numThread = 1;
    MNN::Session *session = interpreter->createSession(config);
    if (!session || !interpreter->getSessionInfo(session, MNN::Interpreter::BACKENDS, codes)) return SESSION_CODE_UNKNOWN;
    return codes[0];
}

MNN::BackendConfig levels_of(const struct options *options) {
    MNN::BackendConfig config;
    const char *precision = options->precision, *memory = options->memory;
    config.precision = !strcmp(precision, "low")    ? MNN::BackendConfig::Precision_Low
                       : !strcmp(precision, "high") ? MNN::BackendConfig::Precision_High
                                                    : MNN::BackendConfig::Precision_Normal;
    config.memory = !strcmp(memory, "low")    ? MNN::BackendConfig::Memory_Low
                    : !strcmp(memory, "high") ? MNN::BackendConfig::Memory_High
                                              : MNN::BackendConfig::Memory_Normal;
    return config;
}

namespace {

// The model's runtime is a protected member; a class derived from it may name it.
struct Reach : Llm {
    static int runtime_code(Llm *llm) {
        int codes[16] = {SESSION_CODE_UNKNOWN};
        auto &runtime = llm->*(&Reach::mRuntimeManager);
        if (!runtime || !runtime->getInfo(MNN::Interpreter::BACKENDS, codes)) return SESSION_CODE_UNKNOWN;
        return codes[0];
    }
};

} // namespace

void load_backend_library(const char *backend) {
    const char *name = !strcmp(backend, "opencl") ? "libMNN_CL.so" : !strcmp(backend, "vulkan") ? "libMNN_Vulkan.so" : "";
    char program[4096];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (!*name || length <= 0) return;
    std::string path(program, static_cast<size_t>(length));
    path = path.substr(0, path.rfind('/') + 1) + name;
    if (access(path.c_str(), F_OK) == 0 && !dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL))
        fprintf(stderr, "error: %s cannot be loaded: %s\n", path.c_str(), dlerror());
}

// In the engine's own words: a fallback is a line in its log. Otherwise it is asked: the runtime that it made for the
// model, and a session for the same backend in this process.
void prove_backend(Llm *llm, const char *asked, struct json config, struct loaded *loaded) {
    struct line configured = {};
    bool told = json_string(json_member(config, "backend_type"), &configured);
    int session = session_code(asked), runtime = Reach::runtime_code(llm);
    const char *answered = backend_name(runtime != SESSION_CODE_UNKNOWN ? runtime : session);
    struct heard heard = hearing_ask();
    loaded->backend_actual = answered;
    loaded->strength = "engine";
    if (heard.fallback.length) {
        if (!strcmp(answered, asked)) loaded->backend_actual = "cpu";
        loaded->strength = "log";
        line_put(&loaded->proof, "%s", line_string(&heard.fallback));
    } else if (!told || strcmp(line_string(&configured), asked)) {
        loaded->backend_actual = nullptr;
        loaded->strength = "none";
        line_put(&loaded->proof, "asked for %s, but the engine's configuration says %s", asked,
                 told ? line_string(&configured) : "nothing");
    } else if (runtime == SESSION_CODE_UNKNOWN && session == SESSION_CODE_UNKNOWN) {
        loaded->backend_actual = nullptr;
        loaded->strength = "none";
        line_put(&loaded->proof, "asked for %s, and the engine does not say what it took", asked);
    } else {
        line_put(&loaded->proof, "asked for %s, configured %s", asked, line_string(&configured));
        if (runtime != SESSION_CODE_UNKNOWN)
            line_put(&loaded->proof, "; the model runs on %s (code %d)", backend_name(runtime), runtime);
        if (session != SESSION_CODE_UNKNOWN)
            line_put(&loaded->proof, "; a session in this process runs on %s (code %d)", backend_name(session), session);
    }
    heard_free(&heard);
    line_free(&configured);
}
