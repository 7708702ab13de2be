#pragma once
#include <MNN/HalideRuntime.h>
#include <stddef.h>
#include <vector>

namespace MNN {

// Holds 32-bit floats.
struct Tensor {
    enum DimensionType { TENSORFLOW, CAFFE, CAFFE_C4 };
    std::vector<int> shape;
    std::vector<float> values;
    Tensor() = default;
    Tensor(const Tensor *other, DimensionType) : shape(other->shape), values(other->values.size()) {}
    static Tensor *create(const std::vector<int> &shape, halide_type_t, void *data, DimensionType) {
        Tensor *made = new Tensor;
        made->resize(shape);
        made->values.assign(static_cast<float *>(data), static_cast<float *>(data) + made->values.size());
        return made;
    }
    void resize(const std::vector<int> &wanted) {
        size_t size = 1;
        for (int extent : shape = wanted) size *= static_cast<size_t>(extent);
        values.resize(size);
    }
    halide_type_t getType() const { return halide_type_of<float>(); }
    DimensionType getDimensionType() const { return CAFFE; }
    int dimensions() const { return static_cast<int>(shape.size()); }
    int length(int axis) const { return shape[static_cast<size_t>(axis)]; }
    int elementSize() const { return static_cast<int>(values.size()); }
    bool copyFromHostTensor(const Tensor *host) { return values = host->values, true; }
    bool copyToHostTensor(Tensor *host) const { return host->values = values, true; }
    template <class T> T *host() const { return const_cast<float *>(values.data()); }
};

} // namespace MNN
