// SPDX-License-Identifier: Apache-2.0

// Persistent calls: capstan.Persistent.

#include "persistent.hpp"

#include <fmt/format.h>

#include <utility>

#include "module.hpp"

namespace capstan::python {

Persistent::Persistent(const std::shared_ptr<Communicator>& communicator, Request request,
                       std::vector<Array> arrays, py::object result)
    : communicator_(communicator),
      call_(*communicator, std::move(request)),
      arrays_(freed_with_gil(std::move(arrays))),
      result_(std::move(result)) {}

Pending Persistent::start() {
  std::shared_ptr<Communicator> held = communicator_.lock();
  if (!held) throw InvalidArgument("the communicator of this persistent call has been closed");
  {
    const ReleasedGil others_run;
    const auto world = std::move(held);
    call_.start().on_complete([arrays = arrays_](const Work&) {});
  }
  return last_.emplace(Pending{call_.work(), result_, arrays_});
}

const Pending& Persistent::last() const {
  if (!last_) throw InvalidArgument("this persistent call has not been started yet");
  return *last_;
}

std::string Persistent::describe() const {
  return std::string{name_of(call_.request().collective)};
}

void bind_persistent(py::module_& m) {
  const auto work = [](const Persistent& self) { return py::cast(self.last()); };
  py::class_<Persistent>(
      m, "Persistent",
      "A collective that was described once, by wait='persistent', and is started "
      "again and again\non the same arrays. All ranks start their calls in the same "
      "order.")
      .def("start", &Persistent::start,
           "Starts the call and returns its Work. The one before must have ended.")
      .def(
          "wait",
          [work](const Persistent& self, const py::object& timeout) {
            return work(self).attr("wait")(timeout);
          },
          py::arg("timeout") = py::none(), "Waits for the last start: see Work.wait().")
      .def_property_readonly(
          "done", [work](const Persistent& self) { return py::object{work(self).attr("done")}; },
          "Whether the last start has ended. Asking moves it on.")
      .def_property_readonly(
          "result", [](const Persistent& self) { return self.result(); },
          "The array that the call writes; None where this rank gets none.")
      .def("__repr__", [](const Persistent& self) {
        return fmt::format("<capstan.Persistent {}>", self.describe());
      });
}

}  // namespace capstan::python
