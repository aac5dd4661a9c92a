// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../python_callbacks.hpp"
#include "../../released_gil.hpp"
#include "array.hpp"
#include "capstan/async/foreign.hpp"
#include "capstan/work.hpp"

namespace capstan::python {

/// Frees with the GIL what a thread without it may be the last to hold.
template <class T>
std::shared_ptr<T> freed_with_gil(T value) {
  return {new T(std::move(value)), [](T* held) {
            PythonCallbacks::of_process().run([held] {  // else memory goes with the interpreter
              const py::gil_scoped_acquire gil;
              delete held;
            });
          }};
}

/// Waits until `work` has ended. Signals are looked at meanwhile: Ctrl-C cancels the operation and
/// raises KeyboardInterrupt. Called with the GIL, which is free during the wait. False when `limit`
/// passes before.
bool wait_interruptibly(const Work& work, std::optional<std::chrono::nanoseconds> limit);

/// The same without a limit, for an operation on `arrays`. They live on if the operation does:
/// where a peer is using them it cannot be cancelled.
void wait_interruptibly(const Work& work, std::vector<Array>& arrays);

/// Whether this thread is the one that runs Python's signal handlers.
bool handles_signals();

/// The result of a function that waits for peers and cannot look at signals. Called with the GIL,
/// which is free meanwhile. Where signals are handled the function runs on a thread of its own, so
/// that Ctrl-C raises KeyboardInterrupt: `give_up` then sees to it that the function ends. The
/// thread may outlive the call, so both own what they use, and use nothing of Python.
template <class Function>
auto run_interruptibly(const std::string& name, Function function, std::function<void()> give_up) {
  if (!handles_signals()) {
    const ReleasedGil others_run;
    return function();
  }
  const auto made = std::make_shared<std::optional<std::invoke_result_t<Function&>>>();
  const Work work = work_from(
      [=](const std::stop_token& stop) {
        const std::stop_callback at_stop{stop, give_up};
        made->emplace(function());
      },
      name);
  wait_interruptibly(work, std::nullopt);
  return std::move(**made);
}

/// An operation in flight, for Python: a Work, what it will give, and the arrays that it uses.
struct Pending {
  Work work;
  py::object result;
  std::shared_ptr<std::vector<Array>> arrays;
};

/// The arrays stay exported until the operation has ended, whether the handle lives or not.
Pending pending(Work work, py::object result, std::vector<Array> arrays);

}  // namespace capstan::python
