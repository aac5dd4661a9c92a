#pragma once
#include <cstddef>
#include "core/ir/types.hpp"
namespace capstan::kernels {
using ScaleKernel = void (*)(void* destination, const void* source, std::size_t count, double factor);
inline ScaleKernel scale_kernel(DataType) { return nullptr; }
}
