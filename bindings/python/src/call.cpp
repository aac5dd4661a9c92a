// SPDX-License-Identifier: Apache-2.0
#include "call.hpp"

#include <fmt/format.h>

#include <utility>

namespace capstan::python {

void require_dense(const Array& array, const char* call, const char* role) {
  if (array.is_dense()) return;
  throw py::buffer_error(
      fmt::format("{}: the {} is not contiguous: pass a contiguous copy (numpy.ascontiguousarray, "
                  "tensor.contiguous())",
                  call, role));
}

Array input_of(py::handle object, const char* call, Use use) {
  Array array = Array::readable(object, use);
  if (!array.is_dense() && array.is_on_host()) return array.packed();
  require_dense(array, call, "input");
  return array;
}

py::object empty(py::handle like, const std::vector<std::int64_t>& shape) {
  return py::module_::import("capstan._arrays").attr("empty")(like, py::cast(shape));
}

std::vector<std::int64_t> gathered_shape(const Array& block, int ranks) {
  auto shape = block.shape();
  shape.insert(shape.begin(), ranks);
  return shape;
}

std::vector<std::int64_t> scattered_shape(const Array& whole, int ranks) {
  auto shape = whole.shape();
  if (shape.empty() || shape[0] % ranks != 0)
    throw InvalidArgument(
        fmt::format("the first dimension, {}, is not divisible by the {} ranks: pass `out` and "
                    "`counts`",
                    shape.empty() ? 1 : shape[0], ranks));
  shape[0] /= ranks;
  if (shape[0] == 1 && shape.size() > 1) shape.erase(shape.begin());
  return shape;
}

}  // namespace capstan::python
