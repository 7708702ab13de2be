// An ordinary model as a module, which runs conditions and loops. Only for the CPU something proves what ran.
#include "backend.hpp"
#include "tensors.hpp"

#include <MNN/expr/Executor.hpp>
#include <MNN/expr/ExprCreator.hpp>
#include <MNN/expr/Module.hpp>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace MNN::Express;

namespace {

struct AsModule : TensorModel {
    std::shared_ptr<Executor::RuntimeManager> manager;
    std::shared_ptr<Module> module;
    std::vector<std::string> takes, gives;
    const struct sample *fed = nullptr;
    std::vector<VARP> made;

    const char *kind() const override { return "module"; }

    bool load(const struct options *options, struct trouble *trouble) override {
        const auto refuse = [&] {
            return trouble_say(trouble, nullptr, "the engine does not load %s", options->tensor), false;
        };
        std::shared_ptr<Module> whole(Module::load({}, {}, options->tensor), Module::destroy);
        if (!whole || !whole->getInfo()) return refuse();
        takes = whole->getInfo()->inputNames;
        gives = whole->getInfo()->outputNames;
        MNN::BackendConfig levels = levels_of(options);
        MNN::ScheduleConfig config;
        config.type = MNN_FORWARD_CPU;
        config.numThread = static_cast<int>(options->threads);
        config.backendConfig = &levels;
        manager.reset(Executor::RuntimeManager::createRuntimeManager(config), Executor::RuntimeManager::destroy);
        if (manager) module.reset(Module::load(takes, gives, options->tensor, manager), Module::destroy);
        return (module && module->getInfo()) || refuse();
    }

    // A module sizes itself.
    bool fit(const struct sample *sample, struct trouble *trouble) override {
        std::map<std::string, bool> names;
        for (const auto &name : takes) names[name] = true;
        fed = sample;
        return has_names(names_of(names), sample, trouble);
    }

    // An input as the engine's variable, in the layout that the model takes.
    VARP variable(const Variable::Info &wanted, const struct array *array, struct trouble *trouble) {
        bool blocks = wanted.order == NC4HW4;
        std::vector<int> shape(array->shape, array->shape + array->rank);
        VARP variable = _Input(shape, blocks ? NCHW : wanted.order, type_of(array->dtype));
        void *place = variable->writeMap<void>();
        if (!place && array->size) {
            trouble_say(trouble, "input", "the engine does not take input %s", array->name);
            return nullptr;
        }
        if (array->size) memcpy(place, array->bytes, array->size);
        return blocks ? _Convert(variable, NC4HW4) : variable;
    }

    bool run(struct trouble *trouble) override {
        std::vector<VARP> inputs;
        for (size_t at = 0; at < takes.size(); at++)
            for (size_t n = 0; n < fed->count; n++)
                if (takes[at] == fed->arrays[n].name) {
                    inputs.push_back(variable(module->getInfo()->inputs[at], &fed->arrays[n], trouble));
                    if (!inputs.back().get()) return false;
                }
        made = module->onForward(inputs);
        if (made.size() != gives.size()) return trouble_say(trouble, "run", "the engine computed nothing"), false;
        for (size_t n = 0; n < made.size(); n++) {
            const auto *info = made[n].get() ? made[n]->getInfo() : nullptr;
            if (info && info->order == NC4HW4) info = (made[n] = _Convert(made[n], NCHW))->getInfo();
            if (!info || (info->size && !made[n]->readMap<void>()))
                return trouble_say(trouble, "output", "the engine does not hand out output %s", gives[n].c_str()), false;
        }
        return true;
    }

    bool output(size_t number, struct array *array) override {
        if (number >= made.size()) return false;
        const auto *info = made[number]->getInfo();
        array->name = gives[number].c_str();
        array->rank = info->dim.size();
        array->dtype = array->rank > MOST_AXES ? nullptr : dtype_of(info->type);
        for (size_t axis = 0; axis < array->rank && axis < MOST_AXES; axis++) array->shape[axis] = info->dim[axis];
        array->size = static_cast<size_t>(info->size) * info->type.bytes();
        array->bytes = info->size ? const_cast<void *>(made[number]->readMap<void>()) : nullptr;
        return true;
    }

    // Below the CPU there is nothing to fall back to.
    void prove(const char *asked, struct loaded *loaded) override {
        int code = session_code(asked);
        loaded->backend_actual = code < 0 ? nullptr : backend_name(code);
        loaded->strength = code < 0 ? "none" : "engine";
        line_put(&loaded->proof, "asked for %s, as a module", asked);
        if (code >= 0)
            line_put(&loaded->proof, "; a session in this process runs on %s (code %d)", backend_name(code), code);
    }
};

} // namespace

TensorModel *new_module() { return new AsModule; }
