// SPDX-License-Identifier: Apache-2.0

// The library's errors as Python exceptions.

#include "errors.hpp"

#include <map>
#include <string>
#include <vector>

#include "capstan/custom_algorithm.hpp"
#include "module.hpp"

namespace capstan::python {
namespace {

namespace py = pybind11;

/// The exception classes by the code of their class, which live as long as the interpreter.
std::map<ErrorCode, PyObject*> classes;

PyObject* define(py::module_& module, const char* name, const char* doc,
                 std::initializer_list<PyObject*> bases) {
  py::tuple parents(bases.size());
  std::size_t i = 0;
  for (PyObject* base : bases) parents[i++] = py::reinterpret_borrow<py::object>(base);
  PyObject* made = PyErr_NewExceptionWithDoc((std::string{"capstan."} + name).c_str(), doc,
                                             parents.ptr(), nullptr);
  if (!made) throw py::error_already_set();
  module.attr(name) = py::reinterpret_borrow<py::object>(made);
  return made;
}

PyObject* algorithm_refused = nullptr;

std::vector<int> blamed(const Error& error) {
  if (const auto* refused = dynamic_cast<const AlgorithmRefused*>(&error))
    return {refused->rank().value()};
  std::vector<int> ranks;
  if (const auto* of_peers = dynamic_cast<const PeerError*>(&error))
    for (const Culprit& culprit : of_peers->culprits())
      if (culprit.rank) ranks.push_back(culprit.rank->value());
  const auto* lost = dynamic_cast<const PeerLost*>(&error);
  if (lost && ranks.empty()) ranks.push_back(lost->lost().value());
  return ranks;
}

void translate(std::exception_ptr pointer) {
  try {
    std::rethrow_exception(pointer);
  } catch (const Error& error) {
    const py::object made = exception_of(error);
    PyErr_SetObject(py::type::handle_of(made).ptr(), made.ptr());
  }
}

struct ExceptionClass {
  ErrorCode code;
  const char* name;
  PyObject* python;  ///< a second base
  const char* doc;
};

std::vector<ExceptionClass> exception_classes() {
  return {
      {ErrorCode::invalid_argument, "InvalidArgument", PyExc_ValueError,
       "The caller passed what cannot work. Nothing was sent."},
      {ErrorCode::system_error, "SystemError", PyExc_OSError,
       "The system, the network or a device refused what is needed."},
      {ErrorCode::limit_reached, "LimitReached", PyExc_MemoryError,
       "A limit on memory is reached."},
      {ErrorCode::bootstrap_failed, "BootstrapError", nullptr,
       "Ranks did not find or did not trust each other at start-up."},
      {ErrorCode::peer_lost, "PeerLost", PyExc_ConnectionError,
       "A peer died, or left while others needed it."},
      {ErrorCode::timed_out, "TimedOut", PyExc_TimeoutError,
       "A peer that is alive did not come in time."},
      {ErrorCode::mismatch, "Mismatch", nullptr, "Ranks made different calls."},
      {ErrorCode::truncated, "Truncated", nullptr,
       "A message is longer than the buffer of its receiver."},
      {ErrorCode::aborted, "Aborted", nullptr, "A rank aborted the communicator."},
      {ErrorCode::cancelled, "Cancelled", nullptr, "The operation was cancelled."},
      {ErrorCode::deadline_exceeded, "DeadlineExceeded", PyExc_TimeoutError,
       "The caller's deadline passed; the operation was cancelled."},
      {ErrorCode::operation_failed, "OperationFailed", nullptr,
       "An operation failed for another reason."},
  };
}

}  // namespace

py::object exception_of(const Error& error) {
  const auto known = classes.find(class_of(error.code()));
  const auto* refused = dynamic_cast<const AlgorithmRefused*>(&error);
  PyObject* type = known == classes.end() ? classes.at(ErrorCode::internal) : known->second;
  if (refused) type = algorithm_refused;
  const py::object made =
      py::reinterpret_borrow<py::object>(type)(py::str(std::string{error.what()}));
  made.attr("code") = std::string{name_of(error.code())};
  made.attr("ranks") = blamed(error);
  if (refused) {
    made.attr("rank") = refused->rank().value();
    made.attr("step") = refused->step();
  }
  return made;
}

void set_python_error(const std::exception_ptr& error) {
  try {
    translate(error);
  } catch (py::error_already_set& raised) {
    raised.restore();
  } catch (const py::builtin_exception& builtin) {
    builtin.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& other) {
    PyErr_SetString(PyExc_RuntimeError, other.what());
  }
}

void bind_errors(py::module_& m) {
  PyObject* base = define(m, "Error",
                          "An error of the library. `code` names its kind; `ranks` lists the ranks "
                          "that it blames, if it knows.",
                          {PyExc_RuntimeError});
  classes[ErrorCode::internal] = base;
  const auto object = py::reinterpret_borrow<py::object>(base);
  object.attr("ranks") = py::list();
  object.attr("code") = std::string{name_of(ErrorCode::internal)};
  for (const ExceptionClass& one : exception_classes())
    classes[one.code] = one.python ? define(m, one.name, one.doc, {base, one.python})
                                   : define(m, one.name, one.doc, {base});
  algorithm_refused =
      define(m, "AlgorithmRefused",
             "The proof of an algorithm failed: at `step` of `rank`, or at no step, -1.",
             {classes.at(ErrorCode::invalid_argument)});
  py::register_exception_translator(&translate);
}

}  // namespace capstan::python
