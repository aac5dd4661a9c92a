// SPDX-License-Identifier: Apache-2.0

// The extension module capstan._engine: what the package capstan is made of.

#include "module.hpp"

#include "capstan/version.hpp"
#include "classes.hpp"

PYBIND11_MODULE(_engine, module) {
  module.doc() = "Collectives and messages between the ranks of a program.";
  capstan::python::bind_errors(module);
  capstan::python::bind_arrays(module);
  capstan::python::bind_algorithms(module);
  capstan::python::bind_work(module);
  capstan::python::bind_persistent(module);
  capstan::python::bind_profiler(module);
  capstan::python::bind_communicator(module);
  capstan::python::bind_accumulator(module);
  capstan::python::bind_lightgbm(module);
  capstan::python::guard_classes(module);
  module.attr("__version__") = std::string{capstan::version()};
}
