// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace capstan::kernels::device {

/// Compiled kernels, as the driver of their vendor loads them. The files of a vendor together hold
/// each kernel once. Empty where the build has left the vendor out.
std::vector<std::span<const std::byte>> cuda_images();
std::vector<std::span<const std::byte>> hip_images();

/// Stands for the images of a vendor that the build has left out: for tests, whose drivers take any
/// bytes for an image. Call it before the first use of a device.
void stand_in_for_missing_images(std::span<const std::byte> image);

}  // namespace capstan::kernels::device
