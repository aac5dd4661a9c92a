// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
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

/// Throws a Python TypeError for elements that no element type describes, also where the program
/// says what they are: of another byte order, or references to Python's objects. `format` is one
/// of the struct module or a typestr of the array interface; `bytes` are those of an element.
void check_elements(std::string_view format, std::size_t bytes);

}  // namespace capstan::python
