#pragma once
#include <MNN/HalideRuntime.h>
#include <cstdint>
#include <memory>
#include <vector>

namespace MNN {
namespace Express {

enum Dimensionformat { NHWC, NC4HW4, NCHW };

struct Variable {
    struct Info {
        Dimensionformat order = NCHW;
        std::vector<int> dim;
        halide_type_t type = halide_type_of<float>();
        size_t size = 0;
    };
    Info info;
    std::vector<float> values;
    const Info *getInfo() const { return &info; }
    template <class T> const T *readMap() const { return values.data(); }
    template <class T> T *writeMap() { return values.data(); }
    static std::vector<int8_t> save(const std::vector<std::shared_ptr<Variable>> &) { return std::vector<int8_t>(4); }
};

using VARP = std::shared_ptr<Variable>;

inline VARP _Input(const std::vector<int> &, Dimensionformat, halide_type_t = halide_type_of<float>()) { return nullptr; }
inline VARP _Sqrt(VARP variable) { return variable; }
inline VARP _Convert(VARP variable, Dimensionformat) { return variable; }

} // namespace Express
} // namespace MNN
