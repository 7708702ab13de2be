#pragma once
#define MNN_VERSION_MAJOR 9
#define MNN_VERSION_MINOR 8
#define MNN_VERSION_PATCH 7
