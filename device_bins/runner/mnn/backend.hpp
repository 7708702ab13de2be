// Which backend runs: the library that it lies in, and the engine's own word.
#pragma once

#include "engine.h"
#include "json.h"

#include <MNN/MNNForwardType.h>
#include <llm/llm.hpp>

// Separate backends (MNN_SEP_BUILD) register themselves when their library is loaded, and nobody but us loads it. In
// other builds there is no such library and nothing to do.
void load_backend_library(const char *backend);

// MNN's name for one of its numbers for backends, and its number for a name.
const char *backend_name(int code);
MNNForwardType forward_type(const char *backend);

// The number of the backend that a session of one operator really gets in this process; below 0: nobody knows.
int session_code(const char *backend);

// The levels that were asked for, as MNN has them.
MNN::BackendConfig levels_of(const struct options *options);

// Say in `loaded` which backend runs and how that is known. `config` is the engine's configuration as it tells it.
void prove_backend(MNN::Transformer::Llm *llm, const char *asked, struct json config, struct loaded *loaded);
