// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "array.hpp"
#include "capstan/request.hpp"

namespace capstan::python {

/// The array that a call reads, as contiguous memory: a copy, if it must be. Throws a Python
/// BufferError, which names the call, where that cannot be.
Array input_of(py::handle object, const char* call, Use use = Use::combined);
void require_dense(const Array& array, const char* call, const char* role);

/// A request's arrays, and what it gives.
struct Call {
  Request request;
  std::vector<Array> arrays{};
  py::object result = py::none();
  std::optional<Array> strided{};  ///< what the output, a dense copy of it, is to become

  explicit Call(Request made) : request(std::move(made)) { arrays.reserve(2); }
  const char* name() const { return name_of(request.collective).data(); }

  void set_input(Array array) {
    request.input = array.data();
    request.input_count = Elements{array.count()};
    keep(std::move(array));
  }
  void set_output(Array array, py::object owner) {
    if (!array.is_dense() && array.is_on_host()) {
      Array dense = array.packed();
      strided = std::exchange(array, std::move(dense));
    }
    require_dense(array, name(), "output");
    request.output = array.data();
    request.output_count = Elements{array.count()};
    keep(std::move(array));
    result = std::move(owner);
  }
  /// The output is the input, too.
  void set_in_place(Array array, py::object owner) {
    set_output(std::move(array), std::move(owner));
    request.input = request.output;
    request.input_count = request.output_count;
  }

 private:
  void keep(Array array) {
    if (!arrays.empty() && !alike(array, arrays.front()))
      throw py::type_error(fmt::format(
          "{}: the input and the output have elements of different types, {} and {}: make the "
          "output with the type of the input",
          name(), arrays.front().element_name(), array.element_name()));
    request.type = array.type();
    request.foreign = array.foreign();
    arrays.push_back(std::move(array));
  }
  static bool alike(const Array& a, const Array& b) {
    return a.type() == b.type() && a.foreign() == b.foreign();
  }
};

/// An array of the same library, element type and device as `like`.
py::object empty(py::handle like, const std::vector<std::int64_t>& shape);

/// The shape of what a rank gets from all, a block of each.
std::vector<std::int64_t> gathered_shape(const Array& block, int ranks);
/// The shape of a rank's part of `whole`. Throws InvalidArgument where parts are not equal.
std::vector<std::int64_t> scattered_shape(const Array& whole, int ranks);

}  // namespace capstan::python
