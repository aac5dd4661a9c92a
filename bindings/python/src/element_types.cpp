// SPDX-License-Identifier: Apache-2.0
#include "element_types.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <mutex>
#include <unordered_set>
#include <utility>

#include "capstan/error.hpp"
#include "refusals.hpp"

namespace capstan::python {
namespace {

/// Integers are told apart by their size, as the letters of C's types have several.
std::optional<ElementType> integer(bool is_signed, std::size_t bytes) {
  switch (bytes) {
    case 1:
      return ElementType{is_signed ? DataType::i8 : DataType::u8};
    case 4:
      return ElementType{is_signed ? DataType::i32 : DataType::u32};
    case 8:
      return ElementType{is_signed ? DataType::i64 : DataType::u64};
    default:
      return std::nullopt;
  }
}

/// Names are kept for good, up to a number that no program comes to: what is beyond has none in
/// errors.
ForeignType foreign_type(std::size_t bytes, const std::string& name) {
  constexpr std::size_t most = 10000;
  static auto& names = *new std::unordered_set<std::string>;
  static auto& mutex = *new std::mutex;
  ForeignType type = ForeignType::named(bytes, name.c_str());
  const std::lock_guard lock{mutex};
  if (names.size() < most) names.insert(name);
  const auto kept = names.find(name);
  type.name = kept == names.end() ? nullptr : kept->c_str();
  return type;
}

}  // namespace

std::optional<ElementType> element_type(std::string_view format, std::size_t bytes) {
  // check_elements() has seen the byte order.
  constexpr std::string_view orders = "<>=@!";
  if (!format.empty() && orders.find(format[0]) != orders.npos) format.remove_prefix(1);
  if (format == "Zf") return ElementType{DataType::c64};
  if (format == "Zd") return ElementType{DataType::c128};
  if (format.size() != 1) return std::nullopt;
  if (format[0] == 'B' && bytes != 1) return std::nullopt;  // ctypes' format of unions
  switch (format[0]) {
    case '?':
      return ElementType{DataType::u8, true};
    case 'e':
      return ElementType{DataType::f16};
    case 'f':
      return ElementType{DataType::f32};
    case 'd':
      return ElementType{DataType::f64};
    case 'b':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      return integer(true, bytes);
    case 'c':
    case 'B':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      return integer(false, bytes);
    default:
      return std::nullopt;
  }
}

std::size_t element_bytes(const std::string& name) {
  std::size_t bytes = 0;  // dates have a unit behind it
  std::from_chars(name.data() + std::min<std::size_t>(name.size(), 2), name.data() + name.size(),
                  bytes);
  return bytes;
}

std::optional<ElementType> element_type_of_interface(const std::string& name) {
  if (name.size() < 3) return std::nullopt;
  const std::size_t bytes = element_bytes(name);
  switch (name[1]) {
    case 'b':
      return ElementType{DataType::u8, true};
    case 'i':
      return integer(true, bytes);
    case 'u':
      return integer(false, bytes);
    case 'f':
      if (bytes == 2) return ElementType{DataType::f16};
      if (bytes == 4) return ElementType{DataType::f32};
      if (bytes == 8) return ElementType{DataType::f64};
      return std::nullopt;
    case 'c':
      if (bytes == 8) return ElementType{DataType::c64};
      if (bytes == 16) return ElementType{DataType::c128};
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string type_name(py::handle object) {
  return py::str(py::type::handle_of(object).attr("__name__"));
}

void refuse_elements(py::handle object, std::string_view format) {
  throw py::type_error(fmt::format(
      "elements of format '{}' of this {} cannot be combined: use integers of 8, 32 or "
      "64 bits, floats of 16, 32 or 64, complex numbers, or capstan.typed(array, 'bf16')",
      format, type_name(object)));
}

std::optional<ElementType> chosen(std::optional<DataType> asked, std::size_t bytes,
                                  std::optional<ElementType> own, Use use) {
  if (!asked) {
    if (own || use == Use::combined || bytes == 0) return own;
    return ElementType{DataType::u8, false, bytes, true};
  }
  if (size_of(*asked).value() != bytes)
    throw py::type_error(fmt::format("{} has {} bytes, and the array's elements have {}",
                                     name_of(*asked), size_of(*asked).value(), bytes));
  return ElementType{*asked};
}

ForeignType foreign_type(const ElementType& element, py::handle object, std::string_view format) {
  if (element.is_bool) return ForeignType::boolean();
  if (!element.is_foreign) return {};
  const py::object name = py::module_::import("capstan._arrays").attr("element_name")(object);
  return foreign_type(element.pieces,
                      name.is_none() ? std::string{format} : name.cast<std::string>());
}

ForeignType foreign_type(std::size_t bytes, const DLDataType& type) {
  constexpr std::pair<std::uint8_t, std::string_view> names[] = {
      {kDLInt, "int"}, {kDLUInt, "uint"}, {kDLFloat, "float"}, {kDLComplex, "complex"}};
  const auto known =
      std::ranges::find(names, type.code, [](const auto& each) { return each.first; });
  const std::string name = known != std::end(names)
                               ? fmt::format("{}{}", known->second, type.bits)
                               : fmt::format("{} bits of DLPack's type {}", type.bits, type.code);
  return foreign_type(bytes, type.lanes == 1 ? name : fmt::format("{} x {}", type.lanes, name));
}

DataType element_type_of(py::handle type) {
  if (PyUnicode_Check(type.ptr()))
    if (const auto known = data_type_named(type.cast<std::string>())) return *known;
  py::object dtype;
  try {
    dtype = py::module_::import("numpy").attr("dtype")(type);
  } catch (py::error_already_set&) {
    std::string names;
    for (const DataType known : all_data_types()) names += fmt::format(" {}", name_of(known));
    throw InvalidArgument(fmt::format("there is no element type '{}'; there are{}, and numpy's",
                                      py::str(type).cast<std::string>(), names));
  }
  const auto name = dtype.attr("str").cast<std::string>();
  check_elements(name, element_bytes(name));
  const auto known = element_type_of_interface(name);
  if (!known || known->is_bool) refuse_elements(dtype, name);
  return known->type;
}

}  // namespace capstan::python
