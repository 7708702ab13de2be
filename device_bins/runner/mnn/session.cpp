// An ordinary model as a session of the engine, sized for one sample at a time.
#include "backend.hpp"
#include "hearing.h"
#include "tensors.hpp"

#include <MNN/Interpreter.hpp>
#include <MNN/Tensor.hpp>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

using MNN::Interpreter;
using MNN::Tensor;

namespace {

// The layout in which a tensor's shape reads: never the engine's own blocks of four channels.
Tensor::DimensionType layout_of(const Tensor *tensor) {
    return tensor->getDimensionType() == Tensor::TENSORFLOW ? Tensor::TENSORFLOW : Tensor::CAFFE;
}

struct Output {
    std::string name;
    std::unique_ptr<Tensor> host;
};

struct AsSession : TensorModel {
    std::shared_ptr<Interpreter> interpreter;
    MNN::Session *session = nullptr;
    std::map<std::string, Tensor *> inputs; // the session's own
    std::map<std::string, std::unique_ptr<Tensor>> fed;
    std::vector<Output> outputs;

    const char *kind() const override { return "session"; }

    bool load(const struct options *options, struct trouble *trouble) override {
        interpreter.reset(Interpreter::createFromFile(options->tensor), Interpreter::destroy);
        if (!interpreter) return trouble_say(trouble, nullptr, "the engine does not load %s", options->tensor), false;
        interpreter->setSessionMode(Interpreter::Session_Resize_Defer);
        MNN::BackendConfig levels = levels_of(options);
        MNN::ScheduleConfig config;
        config.type = forward_type(options->backend);
        config.numThread = static_cast<int>(options->threads);
        config.backendConfig = &levels;
        session = interpreter->createSession(config);
        if (!session) return trouble_say(trouble, nullptr, "the engine makes no session of %s", options->tensor), false;
        inputs = interpreter->getSessionInputAll(session);
        return true;
    }

    bool fit(const struct sample *sample, struct trouble *trouble) override {
        if (!has_names(names_of(inputs), sample, trouble)) return false;
        for (size_t n = 0; n < sample->count; n++) {
            const struct array *array = &sample->arrays[n];
            interpreter->resizeTensor(inputs[array->name], std::vector<int>(array->shape, array->shape + array->rank));
        }
        interpreter->resizeSession(session);
        int status = 0;
        interpreter->getSessionInfo(session, Interpreter::RESIZE_STATUS, &status);
        if (status) {
            trouble_say(trouble, "input", "the engine cannot work out its shapes for sample %s", sample->name);
            return false;
        }
        for (size_t n = 0; n < sample->count; n++) {
            const struct array *array = &sample->arrays[n];
            Tensor *input = inputs[array->name];
            if (input->getType() != type_of(array->dtype))
                return trouble_say(trouble, "input", "input %s is not of type %s", array->name, array->dtype), false;
            std::vector<int> shape(array->shape, array->shape + array->rank);
            fed[array->name].reset(Tensor::create(shape, input->getType(), array->bytes, layout_of(input)));
        }
        return true;
    }

    bool run(struct trouble *trouble) override {
        for (const auto &one : fed)
            if (!inputs[one.first]->copyFromHostTensor(one.second.get()))
                return trouble_say(trouble, "input", "the engine does not take input %s", one.first.c_str()), false;
        MNN::ErrorCode code = interpreter->runSession(session);
        if (code != MNN::NO_ERROR)
            return trouble_say(trouble, "run", "the engine ended the run with error %d", static_cast<int>(code)), false;
        outputs.clear();
        for (const auto &one : interpreter->getSessionOutputAll(session)) {
            std::unique_ptr<Tensor> host(new Tensor(one.second, layout_of(one.second)));
            if (one.second->elementSize() && !one.second->copyToHostTensor(host.get()))
                return trouble_say(trouble, "output", "the engine does not hand out output %s", one.first.c_str()), false;
            outputs.push_back({one.first, std::move(host)});
        }
        return true;
    }

    bool output(size_t number, struct array *array) override {
        if (number >= outputs.size()) return false;
        const Tensor *host = outputs[number].host.get();
        array->name = outputs[number].name.c_str();
        array->rank = static_cast<size_t>(host->dimensions());
        array->dtype = array->rank > MOST_AXES ? nullptr : dtype_of(host->getType());
        for (size_t axis = 0; axis < array->rank && axis < MOST_AXES; axis++)
            array->shape[axis] = host->length(static_cast<int>(axis));
        array->bytes = host->host<void>();
        array->size = static_cast<size_t>(host->elementSize()) * host->getType().bytes();
        return true;
    }

    void prove(const char *asked, struct loaded *loaded) override {
        int codes[16] = {-1};
        bool told = interpreter->getSessionInfo(session, Interpreter::BACKENDS, codes) && codes[0] >= 0;
        const char *ran = told ? backend_name(codes[0]) : nullptr;
        struct heard heard = hearing_ask();
        loaded->backend_actual = ran;
        loaded->strength = told ? "engine" : "none";
        if (heard.fallback.length) {
            if (!ran || !strcmp(ran, asked)) loaded->backend_actual = "cpu";
            loaded->strength = "log";
            line_put(&loaded->proof, "%s", line_string(&heard.fallback));
        } else if (told) {
            line_put(&loaded->proof, "asked for %s; the session runs on %s (code %d)", asked, ran, codes[0]);
        } else {
            line_put(&loaded->proof, "asked for %s, and the engine does not say what it took", asked);
        }
        heard_free(&heard);
    }
};

} // namespace

TensorModel *new_session() { return new AsSession; }
