// SPDX-License-Identifier: Apache-2.0
#include "capstan/accumulator.hpp"

#include <memory>

#include "array.hpp"
#include "communicator.hpp"
#include "module.hpp"

namespace capstan::python {
namespace {

Array dense(Array array, const char* call) {
  if (!array.is_dense() || !array.is_on_host())
    throw py::buffer_error(std::string{"Accumulator."} + call +
                           ": pass a contiguous array in the memory of the host");
  return array;
}

}  // namespace

void bind_accumulator(py::module_& module) {
  py::class_<Accumulator>(
      module, "Accumulator",
      "Exact sums, rounded once: the bits do not depend on the order of numbers nor on the ranks "
      "that add\nthem (docs/reproducibility.md).")
      .def(py::init([](py::handle like) {
             const Array array = Array::readable(like);
             return std::make_unique<Accumulator>(array.type(), Elements{array.count()});
           }),
           py::arg("like"), "As many numbers as an array has, of its type. They begin as zeros.")
      .def_property_readonly("count", [](const Accumulator& self) { return self.count().value(); })
      .def_property_readonly(
          "dtype", [](const Accumulator& self) { return std::string{name_of(self.type())}; })
      .def(
          "add",
          [](py::object self, py::handle numbers) {
            auto& sums = self.cast<Accumulator&>();
            const Array array = dense(Array::readable(numbers), "add");
            sums.add(array.type(), array.data(), Elements{array.count()});
            return self;
          },
          py::arg("array"), "Adds to each sum the element of an array. Returns itself.")
      .def(
          "all_reduce",
          [](py::object self, Endpoint& comm) {
            auto& sums = self.cast<Accumulator&>();
            const auto add_up = [&sums](Communicator& world) {
              sums.all_reduce(world);
              return 0;
            };
            comm.form("Accumulator.all_reduce()", add_up);
            return self;
          },
          py::arg("comm"),
          "Adds up the accumulators of all ranks: all hold the sum afterwards. Returns itself.")
      .def(
          "result",
          [](const Accumulator& self, py::object out) {
            const Array array = dense(Array::writable(out), "result");
            self.result(array.type(), array.data(), Elements{array.count()});
            return out;
          },
          py::arg("out"), "Writes the sums into an array, each rounded once. Returns the array.")
      .def("reset", &Accumulator::reset, "Back to zeros.");
}

}  // namespace capstan::python
