// SPDX-License-Identifier: Apache-2.0

// Tensors whose strides let several indices mean one element.

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <vector>

#include "capstan/tensor.hpp"

namespace capstan {
namespace {

/// Above this many elements, strides that interleave count as overlapping.
constexpr std::uint64_t most_elements_compared = 1 << 24;
constexpr std::int64_t most_step = std::numeric_limits<std::int64_t>::max();

struct Dimension {
  std::int64_t length, step;  ///< the step in elements, not negative
};

/// The dimensions of more than one index, the smallest step first.
std::vector<Dimension> steps_of(const TensorView& tensor) {
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i)
    if (tensor.shape[i] > 1)
      dimensions.push_back({tensor.shape[i], std::abs(std::max(tensor.strides[i], -most_step))});
  std::ranges::sort(dimensions, {}, &Dimension::step);
  return dimensions;
}

/// Each dimension steps over all elements of those before it.
bool is_nested(const std::vector<Dimension>& dimensions) {
  std::int64_t reach = 1;
  for (const auto& [length, step] : dimensions) {
    std::int64_t further = 0;
    if (step < reach) return false;
    if (__builtin_mul_overflow(length - 1, step, &further) ||
        __builtin_add_overflow(reach, further, &reach))
      reach = most_step;
  }
  return true;
}

bool has_equal_places(const std::vector<Dimension>& dimensions) {
  std::vector<std::int64_t> places{0};
  for (const auto& [length, step] : dimensions) {
    const std::size_t inner = places.size();
    for (std::int64_t i = 1; i < length; ++i)
      for (std::size_t place = 0; place < inner; ++place)
        places.push_back(places[place] + i * step);
  }
  std::ranges::sort(places);
  return std::ranges::adjacent_find(places) != places.end();
}

}  // namespace

bool TensorView::overlaps_itself() const {
  if (strides.empty() || count() == Elements{0}) return false;
  const std::vector<Dimension> dimensions = steps_of(*this);
  if (is_nested(dimensions)) return false;
  const bool repeats = dimensions.front().step == 0;
  return repeats || count().value() > most_elements_compared || has_equal_places(dimensions);
}

}  // namespace capstan
