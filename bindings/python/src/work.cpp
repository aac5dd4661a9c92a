// SPDX-License-Identifier: Apache-2.0

// Operations in flight: capstan.Work.

#include "work.hpp"

#include <fmt/format.h>
#include <pybind11/functional.h>

#include <utility>

#include "module.hpp"

namespace capstan::python {
namespace {

/// How often a wait looks for signals.
constexpr std::chrono::milliseconds between_looks{50};

bool wait_for(const Work& work, std::chrono::nanoseconds limit) {
  const ReleasedGil others_run;
  return work.wait_for(limit);
}

/// The seconds of a number, a timedelta, or None.
std::optional<double> seconds_of(py::handle timeout) {
  if (timeout.is_none()) return std::nullopt;
  const bool is_span = py::hasattr(timeout, "total_seconds");
  const py::object number = is_span ? py::object(timeout.attr("total_seconds")())
                                    : py::reinterpret_borrow<py::object>(timeout);
  const double seconds = PyUnicode_Check(number.ptr()) ? -1 : PyFloat_AsDouble(number.ptr());
  if (!PyErr_Occurred()) return seconds;
  PyErr_Clear();
  return -1;
}

std::optional<std::chrono::nanoseconds> limit_of(std::optional<double> seconds,
                                                 py::handle timeout) {
  if (!seconds) return std::nullopt;
  const auto limit = time_limit_of(*seconds);
  if (!limit)
    throw py::value_error(fmt::format("timeout={}: pass seconds from 0, a timedelta, or None",
                                      py::repr(timeout).cast<std::string>()));
  const std::chrono::duration<double> exact{*seconds};
  return exact < *limit ? std::chrono::duration_cast<std::chrono::nanoseconds>(exact) : *limit;
}

py::object wait(const Pending& pending, py::handle timeout) {
  const auto seconds = seconds_of(timeout);
  if (!wait_interruptibly(pending.work, limit_of(seconds, timeout))) {
    PyErr_SetString(PyExc_TimeoutError, fmt::format("{} has not ended within {} s; it continues",
                                                    pending.work.describe(), *seconds)
                                            .c_str());
    throw py::error_already_set();
  }
  return pending.result;
}

/// Lets a waiting asyncio task continue, from whichever thread moves the operation on.
void when_done(const Pending& pending, py::function callback) {
  const auto held = freed_with_gil(std::pair{std::move(callback), pending});
  const ReleasedGil others_run;
  pending.work.ensure_progress();
  pending.work.on_complete([held](const Work&) {
    PythonCallbacks::of_process().run([&] {
      const py::gil_scoped_acquire gil;
      try {
        held->first(held->second);
      } catch (py::error_already_set& error) {
        error.discard_as_unraisable("a callback of a capstan.Work");
      }
    });
  });
}

}  // namespace

bool handles_signals() {
  static const unsigned long main_thread =
      py::module_::import("threading").attr("main_thread")().attr("ident").cast<unsigned long>();
  return PyThread_get_thread_ident() == main_thread;
}

bool wait_interruptibly(const Work& work, std::optional<std::chrono::nanoseconds> limit) {
  const auto deadline = limit ? Deadline::in(*limit) : Deadline::never();
  while (true) {
    const auto slice = std::min<std::chrono::nanoseconds>(between_looks, deadline.remaining());
    if (wait_for(work, slice)) return true;
    if (PyErr_CheckSignals() != 0) {
      const py::error_already_set interrupt;
      const ReleasedGil others_run;
      work.cancel();
      throw interrupt;
    }
    if (deadline.expired()) return false;
  }
}

void wait_interruptibly(const Work& work, std::vector<Array>& arrays) {
  try {
    wait_interruptibly(work, std::nullopt);
  } catch (const py::error_already_set&) {
    if (!work.has_ended()) pending(work, py::none(), std::move(arrays));
    throw;
  }
}

Pending pending(Work work, py::object result, std::vector<Array> arrays) {
  Pending made{std::move(work), std::move(result), freed_with_gil(std::move(arrays))};
  const ReleasedGil others_run;
  made.work.on_complete([held = made.arrays](const Work&) {});
  return made;
}

void bind_work(py::module_& m) {
  py::class_<Pending>(m, "Work",
                      "An operation in flight. It moves on while a thread waits for any operation "
                      "of its rank,\nor by the progress thread. Awaitable in asyncio.")
      .def("wait", &wait, py::arg("timeout") = py::none(),
           "Returns the operation's result when it has ended; raises its error. Raises "
           "TimeoutError after\n`timeout` seconds, or a timedelta: the operation then continues.")
      .def_property_readonly(
          "done", [](const Pending& self) { return wait_for(self.work, {}); },
          "Whether the operation has ended. Asking moves it on.")
      .def(
          "cancel",
          [](const Pending& self) {
            const ReleasedGil others_run;
            return self.work.cancel();
          },
          "Gives the arrays back; wait() then raises Cancelled. Other ranks get their results.\n"
          "False: it had ended, or a peer is using the arrays.")
      .def("on_complete", &when_done, py::arg("callback"),
           "Calls callback(work) once, when the operation has ended, on any thread. Starts the "
           "progress thread.")
      .def("__repr__", [](const Pending& self) {
        return fmt::format("<capstan.Work {}: {}>", self.work.describe(),
                           !self.work.has_ended()     ? "in flight"
                           : self.work.is_cancelled() ? "cancelled"
                           : self.work.error()        ? "failed"
                                                      : "done");
      });
}

}  // namespace capstan::python
