// SPDX-License-Identifier: Apache-2.0

// How methods find their arguments.

#include "method.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace capstan::python {
namespace {

/// The parameter of this name; `count` without one. Names of calls are interned almost always.
std::size_t find(const Signature& signature, PyObject* name) {
  for (std::size_t i = 0; i < signature.count; ++i)
    if (signature.names[i] == name) return i;
  for (std::size_t i = 0; i < signature.count; ++i)
    if (PyUnicode_Compare(signature.names[i], name) == 0) return i;
  return signature.count;
}

bool refuse(const Signature& signature, const char* text, PyObject* name) {
  PyErr_Format(PyExc_TypeError, text, signature.method.c_str(), name);
  return false;
}

}  // namespace

Signature Signature::of(std::string_view text) {
  Signature signature;
  const auto open = text.find('(');
  signature.method = text.substr(0, open);
  bool only_named = false;
  std::string_view rest = text.substr(open + 1, text.find(')') - open - 1);
  while (!rest.empty()) {
    const std::string_view parameter = rest.substr(0, rest.find(", "));
    rest.remove_prefix(std::min(rest.size(), parameter.size() + 2));
    if (parameter == "$self") continue;
    if (parameter == "*") {
      only_named = true;
      continue;
    }
    const auto name = std::string{parameter.substr(0, parameter.find('='))};
    signature.names.at(signature.count++) = PyUnicode_InternFromString(name.c_str());
    if (!only_named) ++signature.positional;
    if (name.size() == parameter.size()) ++signature.required;
  }
  return signature;
}

py::type_error Signature::wrong_type(std::size_t parameter, py::handle argument,
                                     std::string_view wanted) const {
  constexpr std::size_t longest = 60;
  auto value = py::repr(argument).cast<std::string>();
  if (value.size() > longest) value = fmt::format("a {}", Py_TYPE(argument.ptr())->tp_name);
  return py::type_error(fmt::format("{}(): '{}' cannot be {}: pass {}", method,
                                    py::str(names[parameter]).cast<std::string>(), value, wanted));
}

bool Signature::parse(PyObject* const* arguments, Py_ssize_t given, PyObject* keywords,
                      std::array<PyObject*, most>& found) const {
  const auto first = static_cast<std::size_t>(given);
  if (first > positional) {
    PyErr_Format(PyExc_TypeError, "%s() takes at most %zu positional arguments, %zu were given",
                 method.c_str(), positional, first);
    return false;
  }
  std::copy(arguments, arguments + given, found.begin());
  const Py_ssize_t named = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t i = 0; i < named; ++i) {
    PyObject* const name = PyTuple_GET_ITEM(keywords, i);
    const std::size_t at = find(*this, name);
    if (at == count) return refuse(*this, "%s() has no argument '%U'", name);
    if (found[at]) return refuse(*this, "%s() got two values for '%U'", name);
    found[at] = arguments[given + i];
  }
  for (std::size_t i = 0; i < required; ++i)
    if (!found[i]) return refuse(*this, "%s() needs the argument '%U'", names[i]);
  return true;
}

}  // namespace capstan::python
