// SPDX-License-Identifier: Apache-2.0

// The extension module capstan_torch._backend.

#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>

#include "../../released_gil.hpp"
#include "capstan/communicator.hpp"
#include "errors.hpp"
#include "group.hpp"
#include "store.hpp"
#include "tensors.hpp"

namespace capstan::pytorch {

namespace {

c10::intrusive_ptr<Base> create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                std::chrono::milliseconds timeout, const std::string& prefix,
                                bool reconfigures, const std::string& reproducible) {
  const ReleasedGil others_run;
  return translating([&]() -> c10::intrusive_ptr<Base> {
    timeout = saturated(timeout);
    if (reconfigures) return c10::make_intrusive<Group>(rank, size, timeout);
    Settings settings = settings_of(timeout);
    if (!reproducible.empty()) settings.set("reproducible", reproducible);
    const auto meeting = std::make_shared<StoreAdapter>(store);
    try {
      const auto members = owned(Communicator::join(meeting, rank, size, settings, prefix));
      return c10::make_intrusive<Group>(members, timeout);
    } catch (...) {
      if (meeting->interruption()) std::rethrow_exception(meeting->interruption());
      throw;
    }
  });
}

}  // namespace

PYBIND11_MODULE(_backend, m) {
  py::module_::import("torch.distributed");
  m.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
        py::arg("prefix"), py::arg("reconfigures"), py::arg("reproducible"),
        "The backend of one rank. Returns when all ranks have called it, or at once if it has no "
        "members before reconfigure().");
  m.def(
      "promise_bits",
      [](const std::string& promise) { return translating([&] { return promise_bits(promise); }); },
      py::arg("promise"),
      "From now on this thread's calls keep this promise; empty: their group's. Returns the one so "
      "far.");
  m.def("end_callbacks", &Group::end_callbacks, py::call_guard<ReleasedGil>(),
        "The interpreter ends: callbacks of futures end first.");
  py::module_::import("atexit").attr("register")(m.attr("end_callbacks"));
#ifdef C10D_BACKEND_HAS_RECONFIGURE
  m.attr("can_reconfigure") = true;
#else
  m.attr("can_reconfigure") = false;
#endif
  m.attr("version") = capstan::version();
}

}  // namespace capstan::pytorch
