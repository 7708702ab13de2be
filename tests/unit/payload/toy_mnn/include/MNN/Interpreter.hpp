// As much of the interface of MNN as our runner uses, over an engine that plays. None of it is MNN's text.
#pragma once
#include <MNN/MNNDefine.h>
#include <MNN/MNNForwardType.h>
#include <MNN/Tensor.hpp>
#include <cstddef>
#include <map>
#include <string>

namespace MNN {

const char *getVersion();

enum ErrorCode { NO_ERROR = 0, NOT_SUPPORT = 2 };

struct ScheduleConfig {
    MNNForwardType type = MNN_FORWARD_CPU;
    int numThread = 4;
    BackendConfig *backendConfig = nullptr;
};

struct Session;

// Whatever the file holds, its model doubles x to y.
struct Interpreter {
    enum SessionInfoCode { MEMORY = 0, FLOPS = 1, BACKENDS = 2, RESIZE_STATUS = 3 };
    enum SessionMode { Session_Resize_Defer = 7 };
    static Interpreter *createFromBuffer(const void *graph, size_t size);
    static Interpreter *createFromFile(const char *path);
    static void destroy(Interpreter *interpreter) { delete interpreter; }
    void setSessionMode(SessionMode) {}
    Session *createSession(const ScheduleConfig &config);
    bool getSessionInfo(const Session *session, SessionInfoCode code, void *told);
    void resizeTensor(Tensor *tensor, const std::vector<int> &shape) { tensor->resize(shape); }
    void resizeSession(Session *) { made["y"]->resize(fed["x"]->shape); }
    ErrorCode runSession(Session *session) const;
    const std::map<std::string, Tensor *> &getSessionInputAll(const Session *) const { return fed; }
    const std::map<std::string, Tensor *> &getSessionOutputAll(const Session *) const { return made; }

  private:
    Tensor x, y;
    std::map<std::string, Tensor *> fed{{"x", &x}}, made{{"y", &y}};
};

} // namespace MNN
