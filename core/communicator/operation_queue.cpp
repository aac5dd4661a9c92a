// SPDX-License-Identifier: Apache-2.0
#include "capstan/async/operation_queue.hpp"

#include <algorithm>

namespace capstan {

void OperationQueue::enqueue(Work work) {
  if (!work.valid())
    throw InvalidArgument("enqueue: this Work means no operation: start one first");
  const std::lock_guard lock{mutex_};
  works_.push_back(std::move(work));
}

std::vector<Work> OperationQueue::snapshot() const {
  const std::lock_guard lock{mutex_};
  return works_;
}

std::size_t OperationQueue::size() const {
  const std::lock_guard lock{mutex_};
  return works_.size();
}

std::size_t OperationQueue::pending_count() const {
  const auto works = snapshot();
  Work::advance(works);
  return works.size() - static_cast<std::size_t>(std::ranges::count_if(works, &Work::has_ended));
}

bool OperationQueue::wait_until(Deadline deadline, const std::stop_token& stop) const {
  const auto works = snapshot();
  if (!Work::wait_all(works, deadline, stop)) return false;
  for (const Work& work : works) work.wait();
  return true;
}

void OperationQueue::wait_for_all() const {
  wait_until(Deadline::never(), {});
}

bool OperationQueue::wait_for_all(const std::stop_token& stop) const {
  return wait_until(Deadline::never(), stop);
}

bool OperationQueue::try_wait_for_all(TimeLimit timeout, const std::stop_token& stop) const {
  return wait_until(timeout.deadline(), stop);
}

std::optional<std::size_t> OperationQueue::wait_for_any(TimeLimit timeout,
                                                        const std::stop_token& stop) const {
  return Work::wait_any(snapshot(), timeout.deadline(), stop);
}

void OperationQueue::clear_completed() {
  Work::advance(snapshot());  // without the lock: callbacks may use the queue
  const std::lock_guard lock{mutex_};
  std::erase_if(works_, &Work::has_ended);
}

void OperationQueue::cancel_all() {
  for (const Work& work : snapshot()) work.withdraw();
}

}  // namespace capstan
