// A backend in a library of its own: it is there once the library is loaded.
#include <cstdio>

namespace {
struct Registered {
    Registered() { puts("toy engine: opencl is there"); }
} registered;
} // namespace
