// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <exception>

#include "capstan/error.hpp"

namespace capstan::python {

/// The Python exception of an error, with its code and the ranks that it blames.
pybind11::object exception_of(const Error& error);

/// Sets the Python error of any exception, for functions that pybind11 does not call.
void set_python_error(const std::exception_ptr& error);

}  // namespace capstan::python
