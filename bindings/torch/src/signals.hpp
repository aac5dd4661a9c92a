// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/utils/pybind.h>

#include <chrono>

#include "capstan/deadline.hpp"
#include "capstan/work.hpp"

namespace capstan::pytorch {

/// How often a wait looks for signals.
constexpr std::chrono::milliseconds between_looks{50};

/// Runs Python's handlers of signals, which it does in its main thread alone. Throws what they
/// raise, KeyboardInterrupt for example.
inline void look_for_signals() {
  if (Py_IsInitialized() == 0 || PyGILState_GetThisThreadState() == nullptr) return;
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

/// False when the deadline has passed before. Throws what handlers of signals raise: whoever calls
/// it keeps the memory of the work until that has ended.
inline bool ends_before(const capstan::Work& work, Deadline deadline) {
  while (!work.wait_until(Deadline::in(between_looks).clamp(deadline))) {
    if (deadline.expired()) return false;
    look_for_signals();
  }
  return true;
}

}  // namespace capstan::pytorch
