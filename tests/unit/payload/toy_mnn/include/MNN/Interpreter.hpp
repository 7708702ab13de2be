// As much of the interface of MNN as our runner uses, over an engine that plays. None of it is MNN's text.
#pragma once
#include <MNN/MNNDefine.h>
#include <cstddef>

enum MNNForwardType { MNN_FORWARD_CPU = 0, MNN_FORWARD_OPENCL = 3, MNN_FORWARD_VULKAN = 7 };

namespace MNN {

const char *getVersion();

struct ScheduleConfig {
    MNNForwardType type = MNN_FORWARD_CPU;
    int numThread = 4;
};

struct Session;

struct Interpreter {
    enum SessionInfoCode { MEMORY = 0, FLOPS = 1, BACKENDS = 2 };
    static Interpreter *createFromBuffer(const void *graph, size_t size);
    Session *createSession(const ScheduleConfig &config);
    bool getSessionInfo(const Session *session, SessionInfoCode code, void *told);
};

} // namespace MNN
