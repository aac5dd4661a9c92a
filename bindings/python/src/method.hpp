// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "classes.hpp"
#include "errors.hpp"

namespace capstan::python {

namespace py = pybind11;

/// The parameters of a method. Without a value in a call, an object is None, a number 0, a truth
/// value true.
struct Signature {
  static constexpr std::size_t most = 8;

  std::string method{};
  std::size_t required = 0;             ///< these have no default
  std::size_t positional = 0;           ///< the others only go by name
  std::array<PyObject*, most> names{};  ///< interned, as those in calls are
  std::size_t count = 0;

  /// The signature in a text such as "scan($self, array, op='sum', *, out=None)", to the first ')'.
  static Signature of(std::string_view text);

  /// Finds the argument of each parameter, null without one. False with a TypeError.
  bool parse(PyObject* const* arguments, Py_ssize_t given, PyObject* keywords,
             std::array<PyObject*, most>& found) const;
  /// `wanted` says what to pass.
  py::type_error wrong_type(std::size_t parameter, py::handle argument,
                            std::string_view wanted) const;
};

/// The argument `wait` of a collective, True, False or "persistent", and the stream in whose order
/// it runs.
struct Wait {
  enum Kind : std::uint8_t { yes, no, persistent } kind = yes;
  void* stream = nullptr;

  friend bool operator==(Wait wait, Kind kind) { return wait.kind == kind; }
};

namespace detail {

/// Parameters of the type in a call, for the texts of errors.
template <class T>
constexpr std::string_view wanted = "another type";
template <>
constexpr std::string_view wanted<int> = "a whole number of 32 bits";
template <>
constexpr std::string_view wanted<std::optional<std::vector<std::size_t>>> =
    "a whole number from 0 up for each rank";

/// Throws a TypeError that names the parameter.
template <class T>
T cast(PyObject* argument, const Signature& signature, std::size_t index) {
  try {
    return py::handle{argument}.cast<T>();
  } catch (const py::cast_error&) {
    throw signature.wrong_type(index, argument, wanted<T>);
  }
}

inline Wait wait_of(PyObject* argument, const Signature& signature, std::size_t index) {
  if (!argument || argument == Py_True) return {Wait::yes};
  if (argument == Py_False) return {Wait::no};
  if (PyUnicode_Check(argument) != 0 &&
      PyUnicode_CompareWithASCIIString(argument, "persistent") == 0)
    return {Wait::persistent};
  return {cast<bool>(argument, signature, index) ? Wait::yes : Wait::no};
}

template <class T>
T from(PyObject* argument, const Signature& signature, std::size_t index) {
  if constexpr (std::is_same_v<T, py::object>)
    return argument ? py::reinterpret_borrow<py::object>(argument) : py::none();
  else if constexpr (std::is_same_v<T, bool>)
    return !argument || argument == Py_True || cast<bool>(argument, signature, index);
  else if constexpr (std::is_same_v<T, Wait>)
    return wait_of(argument, signature, index);
  else if constexpr (std::is_same_v<T, int>)
    return argument ? cast<int>(argument, signature, index) : 0;
  else
    return argument && argument != Py_None ? cast<T>(argument, signature, index) : T{};
}

/// `Self` is bound by pybind11, as the only base of its class.
template <class Self>
Self& self_of(PyObject* object) {
  auto* const instance = reinterpret_cast<py::detail::instance*>(object);
  auto* const self = static_cast<Self*>(instance->get_value_and_holder().value_ptr());
  if (!self) throw_uninitialised();
  return *self;
}

}  // namespace detail

/// A method that calls a function of C++ without pybind11's way of finding arguments, which takes
/// 0.3 us for a call with one keyword: a third of an all_reduce of 8 bytes.
template <auto function>
class Method;

template <class Self, class... Arguments, py::object (*function)(Self&, Arguments...)>
class Method<function> {
 public:
  /// Adds the method to a class. `text` is its documentation, which begins with the signature, as
  /// inspect.signature() reads it.
  static void add(py::handle type, const char* text) {
    signature = Signature::of(text);
    if (signature.count != sizeof...(Arguments))
      throw std::logic_error(signature.method + ": another number of parameters than its text has");
    static PyMethodDef definition{
        signature.method.c_str(),
        reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&call)),
        METH_FASTCALL | METH_KEYWORDS, text};
    auto method = py::reinterpret_steal<py::object>(
        PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type.ptr()), &definition));
    if (!method) throw py::error_already_set();
    type.attr(signature.method.c_str()) = method;
  }

 private:
  static PyObject* call(PyObject* self, PyObject* const* arguments, Py_ssize_t given,
                        PyObject* keywords) {
    std::array<PyObject*, Signature::most> found{};
    if (!signature.parse(arguments, given, keywords, found)) return nullptr;
    try {
      return [&]<std::size_t... i>(std::index_sequence<i...>) {
        return function(detail::self_of<Self>(self),
                        detail::from<std::remove_cvref_t<Arguments>>(found[i], signature, i)...)
            .release()
            .ptr();
      }(std::index_sequence_for<Arguments...>{});
    } catch (...) {
      set_python_error(std::current_exception());
      return nullptr;
    }
  }

  static inline Signature signature{};
};

}  // namespace capstan::python
