#pragma once
#include <cstdint>
#include <memory>
#include <vector>

namespace MNN {
namespace Express {

enum Dimensionformat { NHWC, NC4HW4, NCHW };

struct Variable {
    struct Info {
        std::vector<int> dim;
        size_t size;
    };
    Info info;
    std::vector<float> values;
    const Info *getInfo() const { return &info; }
    template <class T> const T *readMap() const { return values.data(); }
    static std::vector<int8_t> save(const std::vector<std::shared_ptr<Variable>> &) { return std::vector<int8_t>(4); }
};

using VARP = std::shared_ptr<Variable>;

inline VARP _Input(const std::vector<int> &, Dimensionformat) { return nullptr; }
inline VARP _Sqrt(VARP variable) { return variable; }

} // namespace Express
} // namespace MNN
