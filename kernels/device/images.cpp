// SPDX-License-Identifier: Apache-2.0

// The compiled kernels of devices, as bytes of the library. The build writes the lists of files.
#include "kernels/device/images.hpp"

#define CAPSTAN_BYTES_OF(NAME, FILE)                                                       \
  asm(".pushsection .rodata\n.balign 64\n.globl capstan_image_" #NAME                      \
      "\n.hidden capstan_image_" #NAME "\n.globl capstan_image_end_" #NAME                 \
      "\n.hidden capstan_image_end_" #NAME "\ncapstan_image_" #NAME ":\n.incbin \"" FILE   \
      "\"\ncapstan_image_end_" #NAME ":\n.popsection\n");                                  \
  extern "C" __attribute__((visibility("hidden"))) const std::byte capstan_image_##NAME[]; \
  extern "C" __attribute__((visibility("hidden"))) const std::byte capstan_image_end_##NAME[];

#define IMAGE CAPSTAN_BYTES_OF
#ifdef CAPSTAN_CUDA_IMAGES
#include CAPSTAN_CUDA_IMAGES
#endif
#ifdef CAPSTAN_HIP_IMAGES
#include CAPSTAN_HIP_IMAGES
#endif
#undef IMAGE
#define IMAGE(NAME, FILE) std::span{capstan_image_##NAME, capstan_image_end_##NAME},

namespace capstan::kernels::device {
namespace {

using Images = std::vector<std::span<const std::byte>>;

std::span<const std::byte> stand_in;

Images or_stand_in(Images images) {
  if (images.empty() && !stand_in.empty()) images.push_back(stand_in);
  return images;
}

}  // namespace

std::vector<std::span<const std::byte>> cuda_images() {
  return or_stand_in({
#ifdef CAPSTAN_CUDA_IMAGES
#include CAPSTAN_CUDA_IMAGES
#endif
  });
}

std::vector<std::span<const std::byte>> hip_images() {
  return or_stand_in({
#ifdef CAPSTAN_HIP_IMAGES
#include CAPSTAN_HIP_IMAGES
#endif
  });
}

void stand_in_for_missing_images(std::span<const std::byte> image) {
  stand_in = image;
}

}  // namespace capstan::kernels::device
