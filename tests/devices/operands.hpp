// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "capstan/types.hpp"
#include "kernels/cpu/reduce.hpp"
#include "kernels/cpu/small_float.hpp"

namespace capstan {

/// Elements for reductions: random bits, among them NaNs, infinities and subnormals; and, three
/// times as many, small numbers, whose sums have to be rounded.
inline std::vector<std::byte> random_elements(DataType type, std::size_t count,
                                              std::uint64_t seed) {
  std::mt19937_64 random{seed};
  const std::size_t size = size_of(type).value(), part = is_complex(type) ? size / 2 : size;
  std::vector<std::byte> bytes(count * size);
  for (std::size_t at = 0; at < bytes.size(); at += part) {
    const std::uint64_t bits = random();
    const double number = (static_cast<double>(bits >> 40 & 0xfff) - 2048) * 0.0137;
    const auto put = [&](auto value) { std::memcpy(&bytes[at], &value, sizeof value); };
    std::memcpy(&bytes[at], &bits, part);
    if (is_integer(type) || random() % 4 == 0) continue;
    const auto single = static_cast<float>(number);
    if (type == DataType::f16)
      put(kernels::from_float<Float16>(single));
    else if (type == DataType::bf16)
      put(kernels::from_float<BFloat16>(single));
    else if (type == DataType::f8_e4m3)
      put(kernels::from_float<Float8E4M3>(single));
    else if (type == DataType::f8_e5m2)
      put(kernels::from_float<Float8E5M2>(single));
    else if (part == sizeof(float))
      put(single);
    else
      put(number);
  }
  return bytes;
}

/// The processor's result for the same sources, which it finds aligned.
inline std::vector<std::byte> reduced_by_processor(
    DataType type, ReduceOp op, const std::vector<std::vector<std::byte>>& sources,
    std::uint32_t divisor) {
  std::vector<std::byte> result(sources[0].size());
  std::vector<const void*> pointers;
  for (const auto& source : sources) pointers.push_back(source.data());
  kernels::reduce_kernel(type, op)({.destination = result.data(),
                                    .sources = pointers.data(),
                                    .source_count = pointers.size(),
                                    .element_count = result.size() / size_of(type).value(),
                                    .divisor = divisor});
  return result;
}

}  // namespace capstan
