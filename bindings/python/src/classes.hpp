// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>

namespace capstan::python {

/// Whether the constructor of an object of a bound class has run.
bool is_initialised(PyObject* object);
/// Throws the TypeError of an object that was never initialised.
[[noreturn]] void throw_uninitialised();

/// Every use of such an object raises a TypeError, for all classes of the module.
void guard_classes(const pybind11::module_& module);

}  // namespace capstan::python
