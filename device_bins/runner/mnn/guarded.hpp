// The engine throws where it does not expect a file or a number as it is.
#pragma once

#include "engine.h"

#include <exception>

template <class Work> bool guarded(struct trouble *trouble, Work work) {
    try {
        return work();
    } catch (const std::exception &error) {
        trouble_say(trouble, nullptr, "the engine threw: %s", error.what());
    } catch (...) {
        trouble_say(trouble, nullptr, "the engine threw something without a name");
    }
    return false;
}
