// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <vector>

#include "capstan/tensor.hpp"

namespace capstan::python {

namespace py = pybind11;

/// Memory as its exporter describes it.
struct Layout {
  void* data = nullptr;
  DataType type = DataType::u8;
  std::vector<std::int64_t> shape{};
  std::vector<std::int64_t> byte_strides{};  ///< empty: dense, in C order
  Device device{};
};

/// Everything that comes from Python and is not dense passes here, whatever protocol exports it.
/// Throws a Python BufferError for memory that a TensorView cannot describe: strides that are no
/// multiple of the element and, if it `writes`, elements that share memory.
TensorView exact_view(Layout layout, bool writes);

}  // namespace capstan::python
