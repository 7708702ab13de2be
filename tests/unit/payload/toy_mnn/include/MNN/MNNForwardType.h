#pragma once

enum MNNForwardType { MNN_FORWARD_CPU = 0, MNN_FORWARD_OPENCL = 3, MNN_FORWARD_VULKAN = 7 };

namespace MNN {

struct BackendConfig {
    enum MemoryMode { Memory_Normal, Memory_High, Memory_Low };
    enum PrecisionMode { Precision_Normal, Precision_High, Precision_Low };
    MemoryMode memory = Memory_Normal;
    PrecisionMode precision = Precision_Normal;
};

} // namespace MNN
