// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <coroutine>
#include <exception>

namespace capstan::values {
class Scheduler;
class TaskPromise;
}  // namespace capstan::values

namespace capstan::values::detail {

/// Why the frame of a task is destroyed on this thread: its write buffers leave this error.
struct Cause {
  std::exception_ptr error;
  bool received = false;
};

/// The task and the scheduler that this thread runs.
struct Current {
  TaskPromise* task = nullptr;  ///< the outermost of those that await each other
  Scheduler* scheduler = nullptr;
  Cause* cause = nullptr;
  std::coroutine_handle<> next{};  ///< to be resumed when the one that runs returns
};

Current& current();

}  // namespace capstan::values::detail
