// SPDX-License-Identifier: Apache-2.0
#include "layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace capstan::python {
namespace {

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
  if (writes && view.overlaps_itself())
    throw py::buffer_error(
        "elements of the array share memory (a stride of 0, or windows that overlap), so a result "
        "for each has no place: pass a copy");
  return view;
}

}  // namespace capstan::python
