// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/values/task.hpp"

namespace capstan::values {

/// Tasks that are ready, linked through themselves. Not thread-safe.
struct ReadyList {
  detail::Waiter* first = nullptr;
  detail::Waiter* last = nullptr;
  int count = 0;

  bool empty() const { return first == nullptr; }
  void push_back(TaskPromise& task) {
    detail::Waiter& waiter = task;
    waiter.next = nullptr;
    (first ? last->next : first) = &waiter;
    last = &waiter;
    ++count;
  }
  void push_front(TaskPromise& task) {
    detail::Waiter& waiter = task;
    if (!first) last = &waiter;
    waiter.next = std::exchange(first, &waiter);
    ++count;
  }
  TaskPromise* pop_front() {
    if (!first) return nullptr;
    --count;
    return static_cast<TaskPromise*>(std::exchange(first, first->next));
  }
  /// The first tasks, at most `most`, in order.
  ReadyList split_front(int most) {
    ReadyList part;
    if (!first) return part;
    part.first = part.last = first;
    for (part.count = 1; part.count < most && part.last->next; ++part.count)
      part.last = part.last->next;
    first = std::exchange(part.last->next, nullptr);
    count -= part.count;
    return part;
  }
  void append(const ReadyList& others) {
    if (others.empty()) return;
    (first ? last->next : first) = others.first;
    last = others.last;
    count += others.count;
  }
};

}  // namespace capstan::values
