// An ordinary model: as a session where that can run it, else as a module.
#include "tensors.hpp"

#include "backend.hpp"
#include "clock.h"
#include "guarded.hpp"
#include "process.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>

namespace {

std::unique_ptr<TensorModel> model;

bool load_as(TensorModel *made, const struct options *options, const struct sample *sample, struct loaded *loaded,
             struct trouble *trouble) {
    model.reset(made);
    loaded->begun_ns = now_ns();
    bool good = guarded(trouble, [&] { return model->load(options, trouble) && model->fit(sample, trouble); });
    loaded->took_ns = now_ns() - loaded->begun_ns;
    return good;
}

} // namespace

halide_type_t type_of(const char *dtype) {
    if (!strcmp(dtype, "float32")) return halide_type_of<float>();
    if (!strcmp(dtype, "int32")) return halide_type_of<int32_t>();
    if (!strcmp(dtype, "uint8")) return halide_type_of<uint8_t>();
    return halide_type_of<int8_t>();
}

const char *dtype_of(halide_type_t type) {
    for (const char *dtype : {"float32", "int32", "uint8", "int8"})
        if (type == type_of(dtype)) return dtype;
    return nullptr;
}

bool has_names(const std::string &takes, const struct sample *sample, struct trouble *trouble) {
    std::map<std::string, bool> given;
    for (size_t n = 0; n < sample->count; n++) given[sample->arrays[n].name] = true;
    const std::string gives = names_of(given);
    if (takes == gives) return true;
    trouble_say(trouble, "input", "the model takes %s, sample %s gives %s", takes.c_str(), sample->name, gives.c_str());
    return false;
}

bool load_tensors(struct engine *, const struct options *options, const struct sample *sample, struct loaded *loaded,
                  struct trouble *trouble) {
    load_backend_library(options->backend);
    loaded->rss_before_bytes = resident_bytes();
    bool good = load_as(new_session(), options, sample, loaded, trouble);
    if (!good) {
        const std::string as_session = line_string(&trouble->message);
        if (strcmp(options->backend, "cpu")) {
            trouble_say(trouble, "fallback", "a session cannot run it (%s), and nothing proves that %s runs a module",
                        as_session.c_str(), options->backend);
            return false;
        }
        good = load_as(new_module(), options, sample, loaded, trouble);
        // A sample that does not fit is not to blame on the way in which the model runs.
        if (!good && (!trouble->stage || strcmp(trouble->stage, "input")))
            line_put(&trouble->message, "; as a session: %s", as_session.c_str());
    }
    if (!good) return false;
    line_put(&loaded->config, "null");
    line_put(&loaded->more, ", \"ran_as\": \"%s\"", model->kind());
    return guarded(trouble, [&] { return model->prove(options->backend, loaded), true; });
}

bool fit_tensors(struct engine *, const struct sample *sample, struct trouble *trouble) {
    return guarded(trouble, [&] { return model->fit(sample, trouble); });
}

bool run_tensors(struct engine *, struct trouble *trouble) {
    return guarded(trouble, [&] { return model->run(trouble); });
}

bool output_of_tensors(struct engine *, size_t number, struct array *array) { return model->output(number, array); }

void unload_tensors() { model.reset(); }
