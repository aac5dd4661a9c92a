#pragma once

#include "capstan/values/task.hpp"

namespace capstan::values {

/// Tasks that are ready, linked through themselves. Not thread-safe.
struct ReadyList {
  detail::Waiter* first = nullptr;
  detail::Waiter* last = nullptr;

  bool empty() const { return first == nullptr; }
  void push_back(TaskPromise& task) {
    detail::Waiter& waiter = task;
    waiter.next = nullptr;
    (first ? last->next : first) = &waiter;
    last = &waiter;
  }
  void push_front(TaskPromise& task) {
    detail::Waiter& waiter = task;
    if (!first) last = &waiter;
    waiter.next = std::exchange(first, &waiter);
  }
  TaskPromise* pop_front() {
    return first ? static_cast<TaskPromise*>(std::exchange(first, first->next)) : nullptr;
  }
  /// The first tasks, at most `most`, in order.
  ReadyList split_front(int most) {
    ReadyList part;
    if (!first) return part;
    part.first = part.last = first;
    while (--most > 0 && part.last->next) part.last = part.last->next;
    first = std::exchange(part.last->next, nullptr);
    return part;
  }
  void append(const ReadyList& others) {
    if (others.empty()) return;
    (first ? last->next : first) = others.first;
    last = others.last;
  }
};

}  // namespace capstan::values
