#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace capstan::kernels::device {

/// Compiled kernels, as the driver of their vendor loads them. The files of a vendor together hold
/// each kernel once. Empty where the build has left the vendor out.
std::vector<std::span<const std::byte>> cuda_images();
std::vector<std::span<const std::byte>> hip_images();

}  // namespace capstan::kernels::device
