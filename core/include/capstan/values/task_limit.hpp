// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "capstan/export.hpp"
#include "capstan/values/async.hpp"

namespace CAPSTAN_EXPORT capstan {
namespace values {

/// Bounds the tasks in flight, and so the memory of a program that issues tasks faster than they
/// run. For one thread.
class TaskLimit {
 public:
  /// Throws InvalidArgument unless `most` is at least 1.
  TaskLimit(Scheduler& scheduler, int most);

  /// Schedules a task when the one that was scheduled `most` tasks before it has ended; until then
  /// it waits as Async::wait() does. Tasks wait for others that were scheduled before them, or for
  /// none: what is to be scheduled later may never be.
  void schedule(AsyncTask task);

 private:
  Scheduler& scheduler_;
  std::vector<Async<bool>> places_;  ///< each is read by one task
  std::size_t next_ = 0;
};

}  // namespace values
}  // namespace CAPSTAN_EXPORT capstan
