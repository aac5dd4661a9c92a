// SPDX-License-Identifier: Apache-2.0

// The kernels of 8-bit floats: a table decodes, the f32 kernels combine, piece by piece.
#include <algorithm>
#include <array>

#include "kernels/cpu/composed.hpp"
#include "kernels/cpu/small_float.hpp"

namespace capstan::kernels {
namespace {

constexpr std::size_t piece = 512;  // elements: two of them in f32 stay in the nearest cache

template <class T>
const std::array<float, 256>& decoded() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> values{};
    for (std::uint32_t code = 0; code < 256; ++code)
      values[code] = to_float(T{static_cast<std::uint8_t>(code)});
    return values;
  }();
  return table;
}

template <class T>
void decode(const void* from, std::size_t count, float* to) {
  const auto& table = decoded<T>();
  for (std::size_t i = 0; i < count; ++i) to[i] = table[static_cast<const T*>(from)[i].bits];
}

/// Combines `values` with `next`, or takes them alone.
template <ReduceOp op>
void combine(float* values, const float* next, std::size_t count, std::uint32_t divisor) {
  static const ReduceKernel kernel = reduce_kernel(DataType::f32, op);
  const void* sources[] = {values, next};
  kernel({.destination = values,
          .second_destination = nullptr,
          .sources = sources,
          .source_count = next ? 2u : 1u,
          .element_count = count,
          .divisor = divisor});
}

template <class T, ReduceOp op>
void reduce_piece(const Reduction& r, std::size_t first, std::size_t count) {
  std::array<float, piece> values, next;
  decode<T>(static_cast<const T*>(r.sources[0]) + first, count, values.data());
  for (std::size_t s = 1; s < r.source_count; ++s) {
    decode<T>(static_cast<const T*>(r.sources[s]) + first, count, next.data());
    combine<op>(values.data(), next.data(), count, 1);
  }
  if (r.divisor > 1) combine<op>(values.data(), nullptr, count, r.divisor);
  std::array<T, piece> results;
  for (std::size_t i = 0; i < count; ++i) results[i] = from_float<T>(values[i]);
  std::copy_n(results.begin(), count, static_cast<T*>(r.destination) + first);
  if (r.second_destination)
    std::copy_n(results.begin(), count, static_cast<T*>(r.second_destination) + first);
  for (std::size_t k = 0; k < r.further_count; ++k)
    std::copy_n(results.begin(), count, static_cast<T*>(r.further[k]) + first);
}

template <class T, ReduceOp op>
void reduce(const Reduction& r) {
  if (r.source_count == 1 && r.divisor <= 1) {
    if (r.second_destination) copy(r.second_destination, r.sources[0], r.element_count, false);
    if (r.destination != r.sources[0])
      copy(r.destination, r.sources[0], r.element_count, r.stream_destination);
    for (std::size_t k = 0; k < r.further_count; ++k)
      if (r.further[k] != r.sources[0])
        copy(r.further[k], r.sources[0], r.element_count, r.stream_destination);
    return;
  }
  for (std::size_t first = 0; first < r.element_count; first += piece)
    reduce_piece<T, op>(r, first, std::min(piece, r.element_count - first));
}

template <class T>
ReduceKernel kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return reduce<T, ReduceOp::sum>;
    case ReduceOp::product:
      return reduce<T, ReduceOp::product>;
    case ReduceOp::min:
      return reduce<T, ReduceOp::min>;
    case ReduceOp::max:
      return reduce<T, ReduceOp::max>;
    case ReduceOp::average:
      return reduce<T, ReduceOp::average>;
    case ReduceOp::logical_and:
      return reduce<T, ReduceOp::logical_and>;
    case ReduceOp::logical_or:
      return reduce<T, ReduceOp::logical_or>;
    case ReduceOp::logical_xor:
      return reduce<T, ReduceOp::logical_xor>;
    default:
      return nullptr;
  }
}

}  // namespace

ReduceKernel find_float8_kernel(DataType type, ReduceOp op) {
  return type == DataType::f8_e4m3 ? kernel_of<Float8E4M3>(op) : kernel_of<Float8E5M2>(op);
}

}  // namespace capstan::kernels
