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

namespace capstan::pytorch {

namespace {

/// Destroys without the GIL: the progress thread may wait for it in a callback of a future.
void destroy(Communicator* communicator) {
  if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    const ReleasedGil others_run;
    delete communicator;
  } else {
    delete communicator;
  }
}

c10::intrusive_ptr<Base> create(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                std::chrono::milliseconds timeout, const std::string& prefix) {
  const ReleasedGil others_run;
  return translating([&]() -> c10::intrusive_ptr<Base> {
    Settings settings = Settings::from_environment();
    timeout = saturated(timeout);
    settings.timeout = settings.join_timeout = timeout;
    auto joined =
        Communicator::join(std::make_shared<StoreAdapter>(store), rank, size, settings, prefix);
    const std::shared_ptr<Communicator> shared(new Communicator(std::move(joined)), &destroy);
    return c10::make_intrusive<Group>(shared, timeout);
  });
}

}  // namespace

PYBIND11_MODULE(_backend, m) {
  py::module_::import("torch.distributed");
  m.def("create", &create, py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout"),
        py::arg("prefix"), "The backend of one rank. Returns when all ranks have called it.");
  m.def("end_callbacks", &Group::end_callbacks, py::call_guard<ReleasedGil>(),
        "The interpreter ends: callbacks of futures end first.");
  py::module_::import("atexit").attr("register")(m.attr("end_callbacks"));
  m.attr("version") = capstan::version();
}

}  // namespace capstan::pytorch
