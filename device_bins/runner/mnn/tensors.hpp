// Ordinary models; see `struct engine`. A session tells which backend it took; a module runs what a session cannot.
#pragma once

#include "engine.h"

#include <MNN/HalideRuntime.h>

#include <string>

struct TensorModel {
    virtual ~TensorModel() = default;
    // Load it; sized for a sample by the next call.
    virtual bool load(const struct options *options, struct trouble *trouble) = 0;
    virtual bool fit(const struct sample *sample, struct trouble *trouble) = 0;
    virtual bool run(struct trouble *trouble) = 0;
    virtual bool output(size_t number, struct array *array) = 0;
    // Say which backend runs and how that is known.
    virtual void prove(const char *asked, struct loaded *loaded) = 0;
    virtual const char *kind() const = 0;
};

TensorModel *new_session();
TensorModel *new_module();

halide_type_t type_of(const char *dtype);
const char *dtype_of(halide_type_t type); // NULL: none that is known here

// Names with commas between, as a sentence has them.
template <class Map> std::string names_of(const Map &map) {
    std::string names;
    for (const auto &one : map) names += (names.empty() ? "" : ", ") + one.first;
    return names;
}

// Whether a sample gives what a model takes, by names.
bool has_names(const std::string &takes, const struct sample *sample, struct trouble *trouble);

bool load_tensors(struct engine *engine, const struct options *options, const struct sample *sample,
                  struct loaded *loaded, struct trouble *trouble);
bool fit_tensors(struct engine *engine, const struct sample *sample, struct trouble *trouble);
bool run_tensors(struct engine *engine, struct trouble *trouble);
bool output_of_tensors(struct engine *engine, size_t number, struct array *array);
void unload_tensors();
