// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlpack/dlpack.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "capstan/foreign_type.hpp"
#include "capstan/types.hpp"

namespace capstan::python {

namespace py = pybind11;

/// The use that a call makes of elements. Types that Capstan has no arithmetic for can be moved:
/// they travel as bytes.
enum class Use { combined, moved };

struct ElementType {
  DataType type;
  bool is_bool = false;
  std::size_t pieces = 1;
  bool is_foreign = false;  ///< not `type`, though it travels as that
};

/// The element type of a format of the struct module, for example "<f". Empty for others than
/// Capstan's.
std::optional<ElementType> element_type(std::string_view format, std::size_t bytes);
/// The same by a typestr of the array interface, for example "<f4".
std::optional<ElementType> element_type_of_interface(const std::string& name);
/// The bytes of an element by such a typestr.
std::size_t element_bytes(const std::string& name);

/// The type that the program asks for, or the array's own. Empty for elements that cannot be used
/// in this way.
std::optional<ElementType> chosen(std::optional<DataType> asked, std::size_t bytes,
                                  std::optional<ElementType> own, Use use);

std::string type_name(py::handle object);
[[noreturn]] void refuse_elements(py::handle object, std::string_view format);

/// The type of elements that are of no DataType: as numpy names it, if it can.
ForeignType foreign_type(const ElementType& element, py::handle object, std::string_view format);
/// Named as numpy and PyTorch do.
ForeignType foreign_type(std::size_t bytes, const DLDataType& type);

/// From the type's name, "f32", or from whatever numpy.dtype() takes: np.float32, "<f4". Throws
/// InvalidArgument, and TypeError for types of numpy's that Capstan does not have.
DataType element_type_of(py::handle type);

}  // namespace capstan::python
