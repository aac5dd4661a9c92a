// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <stop_token>
#include <utility>

#include "capstan/async/execute.hpp"
#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

namespace detail {

/// Resumes a coroutine once: when the operation has ended, the deadline has passed or a stop is
/// requested.
void resume_within(const Work& work, Deadline deadline, std::stop_token stop,
                   std::coroutine_handle<> coroutine);

/// Throws like within().
void end_of_wait(const Work& work, Deadline deadline, const std::stop_token& stop);

}  // namespace detail

/// co_await within(work, 5s, stop): continues when the operation has ended, and throws its error.
/// When the time is up or a stop is requested before, throws DeadlineExceeded (with the time limit
/// and the operation's text) or Cancelled within 20 ms; the operation continues. Resumes on the
/// thread that ends the operation, or on one of the library's. Starts the progress thread if there
/// is none.
inline auto within(Work work, TimeLimit limit, std::stop_token stop = {}) {
  struct Awaiter {
    Work work;
    Deadline deadline;
    std::stop_token stop;
    bool await_ready() const { return work.has_ended(); }
    void await_suspend(std::coroutine_handle<> coroutine) const {
      // Copies: the coroutine may continue, and end, before this returns.
      const Work own = work;
      detail::resume_within(own, deadline, stop, coroutine);
    }
    void await_resume() const { detail::end_of_wait(work, deadline, stop); }
  };
  return Awaiter{std::move(work), limit.deadline(), std::move(stop)};
}

}  // namespace CAPSTAN_EXPORT capstan
