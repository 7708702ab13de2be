#pragma once
#include <cstdint>
#include <type_traits>

struct halide_type_t {
    int code, bits;
    int bytes() const { return bits / 8; }
    bool operator==(const halide_type_t &other) const { return code == other.code && bits == other.bits; }
    bool operator!=(const halide_type_t &other) const { return !(*this == other); }
};

template <class T> halide_type_t halide_type_of() {
    return {std::is_floating_point<T>::value ? 2 : std::is_unsigned<T>::value, static_cast<int>(sizeof(T) * 8)};
}
