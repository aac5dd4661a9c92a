// SPDX-License-Identifier: Apache-2.0
#include "layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

namespace capstan::python {
namespace {

/// Above this many elements, strides that interleave count as overlapping.
constexpr std::int64_t most_elements_compared = 1 << 24;

struct Dimension {
  std::int64_t length, step;  ///< the step in elements, not negative
};

/// The dimensions of more than one index, the smallest step first.
std::vector<Dimension> steps_of(const TensorView& tensor) {
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i)
    if (tensor.shape[i] > 1) dimensions.push_back({tensor.shape[i], std::abs(tensor.strides[i])});
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
      reach = std::numeric_limits<std::int64_t>::max();
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

/// Whether two indices mean one element.
bool overlaps(const TensorView& tensor) {
  const std::vector<Dimension> dimensions = steps_of(tensor);
  if (is_nested(dimensions)) return false;
  const bool repeats = dimensions.front().step == 0;
  return repeats || tensor.count().value() > most_elements_compared || has_equal_places(dimensions);
}

/// Strides of dimensions of one index are never used, and exporters leave anything there.
std::vector<std::int64_t> element_strides(const Layout& layout, std::int64_t bytes) {
  std::vector<std::int64_t> strides(layout.byte_strides.size());
  for (std::size_t i = 0; i < strides.size() && i < layout.shape.size(); ++i) {
    const std::int64_t stride = layout.byte_strides[i];
    if (layout.shape[i] > 1 && stride % bytes != 0)
      throw py::buffer_error(fmt::format(
          "the array's elements of {} bytes lie {} bytes apart, which is no multiple of them: "
          "pass a contiguous copy (numpy.ascontiguousarray)",
          bytes, stride));
    strides[i] = stride / bytes;
  }
  return strides;
}

}  // namespace

TensorView exact_view(Layout layout, bool writes) {
  const bool is_empty = std::ranges::find(layout.shape, 0) != layout.shape.end();
  if (is_empty) layout.byte_strides.clear();
  auto strides = element_strides(layout, static_cast<std::int64_t>(size_of(layout.type).value()));
  TensorView view{layout.data, layout.type, std::move(layout.shape), std::move(strides),
                  layout.device};
  if (writes && !view.strides.empty() && overlaps(view))
    throw py::buffer_error(
        "elements of the array share memory (a stride of 0, or windows that overlap), so a result "
        "for each has no place: pass a copy");
  return view;
}

}  // namespace capstan::python
