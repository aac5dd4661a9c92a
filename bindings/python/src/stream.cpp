// SPDX-License-Identifier: Apache-2.0
#include "stream.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace capstan::python {
namespace {

namespace py = pybind11;

std::string library_of(py::handle array) {
  const auto module = py::str(py::type::handle_of(array).attr("__module__")).cast<std::string>();
  return module.substr(0, module.find('.'));
}

py::object current_stream(py::handle array) {
  const std::string library = library_of(array);
  if (library == "torch")
    return py::module_::import("torch").attr("cuda").attr("current_stream")(array.attr("device"));
  if (library == "cupy")
    return py::module_::import("cupy").attr("cuda").attr("get_current_stream")();
  throw py::type_error(fmt::format(
      "stream='current' is known for tensors of PyTorch and arrays of CuPy, not for a "
      "{} of {}: pass the stream itself",
      py::str(py::type::handle_of(array).attr("__name__")).cast<std::string>(), library));
}

/// The object that holds the number of a stream, as its library names it.
py::object number_of(py::handle stream) {
  if (py::hasattr(stream, "__cuda_stream__")) {
    py::object told = stream.attr("__cuda_stream__");
    if (PyCallable_Check(told.ptr()) != 0) told = told();
    return py::tuple(told)[1];
  }
  for (const char* const name : {"cuda_stream", "ptr", "handle"})
    if (py::hasattr(stream, name)) {
      py::object number = stream.attr(name);
      return py::hasattr(number, "value") ? py::object{number.attr("value")} : number;
    }
  return py::reinterpret_borrow<py::object>(stream);
}

}  // namespace

void* stream_of(py::handle stream, py::handle array) {
  if (stream.is_none()) return nullptr;
  const bool asks = PyUnicode_Check(stream.ptr()) != 0 &&
                    PyUnicode_CompareWithASCIIString(stream.ptr(), "current") == 0;
  const py::object number = number_of(asks ? current_stream(array) : stream);
  if (PyLong_Check(number.ptr()) == 0 || PyBool_Check(number.ptr()) != 0)
    throw py::type_error(
        fmt::format("a {} is no stream: pass the number of a cudaStream_t, a stream of PyTorch or "
                    "CuPy, or 'current'",
                    py::str(py::type::handle_of(stream).attr("__name__")).cast<std::string>()));
  // The default stream is 0 in CUDA, and 1 (cudaStreamLegacy) where 0 stands for none.
  const auto handle = number.cast<std::uintptr_t>();
  return reinterpret_cast<void*>(handle == 0 ? std::uintptr_t{1} : handle);
}

}  // namespace capstan::python
