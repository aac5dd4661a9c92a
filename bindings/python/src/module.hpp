// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace capstan::python {

// Each adds its classes and functions to the module capstan._engine.
void bind_accumulator(pybind11::module_& module);
void bind_errors(pybind11::module_& module);
void bind_algorithms(pybind11::module_& module);
void bind_arrays(pybind11::module_& module);
void bind_work(pybind11::module_& module);
void bind_collectives(pybind11::handle communicator);
void bind_communicator(pybind11::module_& module);
void bind_persistent(pybind11::module_& module);
void bind_lightgbm(pybind11::module_& module);
void bind_profiler(pybind11::module_& module);
void bind_worlds(pybind11::module_& module);

}  // namespace capstan::python
