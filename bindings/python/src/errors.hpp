#pragma once

#include <pybind11/pybind11.h>

#include "capstan/error.hpp"

namespace capstan::python {

/// The Python exception of an error, with its code and the ranks that it blames.
pybind11::object exception_of(const Error& error);

}  // namespace capstan::python
