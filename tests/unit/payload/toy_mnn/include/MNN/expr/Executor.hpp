#pragma once
#include <MNN/Interpreter.hpp>

namespace MNN {
namespace Express {

struct Executor {
    struct RuntimeManager {
        static RuntimeManager *createRuntimeManager(const ScheduleConfig &) { return new RuntimeManager; }
        static void destroy(RuntimeManager *manager) { delete manager; }
    };
};

} // namespace Express
} // namespace MNN
