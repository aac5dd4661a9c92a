// SPDX-License-Identifier: Apache-2.0

// capstan.Profiler: what operations and their steps took.

#include "capstan/observe/profiler.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "capstan/observe/exports.hpp"
#include "module.hpp"

namespace capstan::python {
namespace {

namespace py = pybind11;

double in_seconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

/// Seconds since 1970.
double in_seconds(std::chrono::system_clock::time_point time) {
  return in_seconds(std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()));
}

void bind_operation(py::module_& m) {
  using P = OperationProfile;
  py::class_<P>(m, "OperationProfile", "An operation that a Profiler has measured.")
      .def_readonly("operation", &P::operation)
      .def_readonly("algorithm", &P::algorithm)
      .def_readonly("ranks", &P::ranks)
      .def_readonly("rank", &P::rank, "In the world.")
      .def_readonly("tag", &P::tag)
      .def_readonly("failed", &P::failed)
      .def_readonly("index", &P::index)
      .def_readonly("bandwidth", &P::bandwidth, "MiB/s.")
      .def_property_readonly("bytes", [](const P& self) { return self.bytes.value(); })
      .def_property_readonly(
          "duration", [](const P& self) { return in_seconds(self.duration); }, "Seconds.")
      .def_property_readonly(
          "began", [](const P& self) { return in_seconds(self.began); }, "Seconds since 1970.")
      .def("__repr__", &P::to_string);
}

void bind_step(py::module_& m) {
  using P = StepProfile;
  py::class_<P>(m, "StepProfile", "A step of a collective, as a rank has carried it out.")
      .def_readonly("step", &P::step)
      .def_readonly("peer", &P::peer, "-1: no rank took part, or several.")
      .def_readonly("block", &P::block)
      .def_readonly("number", &P::number, "Of the step of the schedule.")
      .def_readonly("rank", &P::rank, "In the world.")
      .def_readonly("tag", &P::tag)
      .def_readonly("operation", &P::operation, "OperationProfile.index of the call.")
      .def_property_readonly("bytes", [](const P& self) { return self.bytes.value(); })
      .def_property_readonly(
          "duration", [](const P& self) { return in_seconds(self.duration); }, "Seconds.")
      .def_property_readonly(
          "began", [](const P& self) { return in_seconds(self.began); }, "Seconds since 1970.");
}

}  // namespace

void bind_profiler(py::module_& m) {
  bind_operation(m);
  bind_step(m);
  py::class_<Profiler>(
      m, "Profiler",
      "Records the collectives of communicators: comm.attach(profiler).\n\n"
      "capacity: operations that are kept, later ones replace the oldest. steps: the same for "
      "steps of\ncollectives; 0 records none. file: where other processes can read the operations. "
      "Several ranks\nof a process may share one. Thread-safe.")
      .def(py::init([](std::size_t capacity, std::size_t steps, const std::string& file) {
             return Profiler{ProfilerOptions{.capacity = capacity, .steps = steps, .file = file}};
           }),
           py::kw_only(), py::arg("capacity") = ProfilerOptions{}.capacity, py::arg("steps") = 0,
           py::arg("file") = "")
      .def("profiles", &Profiler::profiles, "The operations that are kept, as they ended.")
      .def("steps", &Profiler::steps, "The steps that are kept.")
      .def(
          "summary", [](const Profiler& self) { return self.statistics().to_string(); },
          "Number, bytes, time and bandwidth of all operations, in one line.")
      .def(
          "trace", [](const Profiler& self) { return to_trace(self.profiles(), self.steps()); },
          "In the trace-event format (JSON), for ui.perfetto.dev.")
      .def(
          "svg",
          [](const Profiler& self, const std::optional<std::vector<StepProfile>>& steps,
             const std::string& title) { return to_picture(steps ? *steps : self.steps(), title); },
          py::arg("steps") = py::none(), py::arg("title") = "",
          "A picture of these steps over time, a row for each rank; of all that are kept without "
          "`steps`.")
      .def("clear", &Profiler::clear, "Forgets all operations.");
}

}  // namespace capstan::python
