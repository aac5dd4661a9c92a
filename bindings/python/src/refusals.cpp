// SPDX-License-Identifier: Apache-2.0
#include "refusals.hpp"

#include <fmt/format.h>

#include <bit>
#include <string>
#include <utility>

#include "capstan/tensor.hpp"

namespace capstan::python {
namespace {

/// Whether a format has one of the letters outside of the names of fields, as in "T{>f:x:O:y:}".
bool has_letter(std::string_view format, std::string_view letters) {
  bool in_name = false;
  for (const char letter : format) {
    if (letter == ':') in_name = !in_name;
    if (!in_name && letters.find(letter) != letters.npos) return true;
  }
  return false;
}

/// By a type of numpy's.
void check_fields(py::handle dtype) {
  if (!dtype.attr("subdtype").is_none()) return check_fields(dtype.attr("base"));
  if (dtype.attr("fields").is_none())
    return check_elements(dtype.attr("str").cast<std::string>(),
                          dtype.attr("itemsize").cast<std::size_t>());
  for (const py::handle name : dtype.attr("names")) check_fields(py::object(dtype[name]));
}

}  // namespace

void check_elements(std::string_view format, std::size_t bytes) {
  constexpr bool little = std::endian::native == std::endian::little;
  if (bytes > 1 && has_letter(format, little ? ">!" : "<"))
    throw py::type_error(fmt::format(
        "elements of format '{}' have the byte order of another machine: pass a copy in this one's "
        "(array.astype(array.dtype.newbyteorder('=')))",
        format));
  if (has_letter(format, "OP&"))
    throw py::type_error(fmt::format(
        "elements of format '{}' are addresses, which mean nothing to another rank: pass values",
        format));
}

void check_exporter(const Py_buffer& buffer) {
  py::module_::import("capstan._arrays").attr("refuse_addresses")(py::handle{buffer.obj});
}

void check_record(py::handle object, const py::dict& interface) {
  if (py::hasattr(object, "dtype")) return check_fields(object.attr("dtype"));
  if (interface.contains("descr"))
    check_fields(py::module_::import("numpy").attr("dtype")(interface["descr"]));
}

void check_gaps(py::handle object) {
  py::module_::import("capstan._arrays").attr("refuse_gaps")(object);
}

void check_mask(py::handle object) {
  const bool is_of_subclass = Py_TYPE(object.ptr())->tp_base != &PyBaseObject_Type;
  if (is_of_subclass && PyObject_CheckBuffer(object.ptr()))  // as numpy.ndarray itself is not
    py::module_::import("capstan._arrays").attr("refuse_mask")(object);
}

void check_dlpack(py::handle object, const DLTensor& tensor) {
  const auto refuse = [&](auto error, std::string_view why) {
    throw decltype(error)(fmt::format(
        "the tensor of this {} {}",
        py::str(py::type::handle_of(object).attr("__name__")).cast<std::string>(), why));
  };
  if (tensor.dtype.code == kDLOpaqueHandle)
    refuse(py::type_error{""}, "has handles, which mean nothing to another rank: pass values");
  if (tensor.ndim < 0) refuse(py::buffer_error{""}, "has a number of dimensions below 0");
  if (is_known(static_cast<DeviceType>(tensor.device.device_type))) return;
  refuse(
      py::buffer_error{""},
      fmt::format("is on a device of DLPack's type {}, whose memory Capstan cannot read: copy it "
                  "to the host",
                  static_cast<int>(tensor.device.device_type)));
}

void check_pending(py::handle tensor) {
  constexpr std::pair<const char*, const char*> pending[] = {{"is_neg", "resolve_neg"},
                                                             {"is_conj", "resolve_conj"}};
  for (const auto& [is_pending, resolve] : pending)
    if (py::hasattr(tensor, is_pending) && tensor.attr(is_pending)().cast<bool>())
      throw py::buffer_error(fmt::format(
          "the tensor's memory does not hold the values that it shows, as tensor.{}() says: pass "
          "tensor.{}()",
          is_pending, resolve));
}

}  // namespace capstan::python
