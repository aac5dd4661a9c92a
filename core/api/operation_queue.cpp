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
  const std::lock_guard lock{mutex_};
  return static_cast<std::size_t>(
      std::ranges::count_if(works_, [](const Work& work) { return !work.is_completed(); }));
}

void OperationQueue::wait_for_all() const {
  const auto works = snapshot();
  Work::wait_all(works);
  for (const Work& work : works) work.wait();
}

bool OperationQueue::try_wait_for_all(std::chrono::nanoseconds timeout) const {
  const auto works = snapshot();
  if (!Work::wait_all(works, Deadline::in(timeout))) return false;
  for (const Work& work : works) work.wait();
  return true;
}

std::optional<std::size_t> OperationQueue::wait_for_any(
    std::optional<std::chrono::nanoseconds> timeout) const {
  return Work::wait_any(snapshot(), timeout ? Deadline::in(*timeout) : Deadline::never());
}

void OperationQueue::clear_completed() {
  const std::lock_guard lock{mutex_};
  std::erase_if(works_, [](const Work& work) { return work.is_completed(); });
}

void OperationQueue::cancel_all() {
  for (const Work& work : snapshot()) work.withdraw();
}

}  // namespace capstan
