// SPDX-License-Identifier: Apache-2.0
#include "capstan/values/task_limit.hpp"

#include <fmt/format.h>

namespace capstan::values {
namespace {

AsyncTask run_in(ReadBuffer<bool>, AsyncTask task) {
  co_await std::move(task);
}

}  // namespace

TaskLimit::TaskLimit(Scheduler& scheduler, int most) : scheduler_(scheduler) {
  if (most < 1)
    throw InvalidArgument(fmt::format("{} tasks in flight: at least one has to be allowed", most));
  for (int i = 0; i < most; ++i) places_.emplace_back(true);
}

void TaskLimit::schedule(AsyncTask task) {
  Async<bool>& place = places_[next_++ % places_.size()];
  MutableBuffer<bool> last_has_left = place.mutate();
  scheduler_.wait(last_has_left);
  last_has_left.release();
  scheduler_.schedule(run_in(place.read(), std::move(task)));
}

}  // namespace capstan::values
