// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <utility>

#include "core/engine/run/task.hpp"

namespace capstan {

/// Tasks in the order in which they run; the first one runs. Tasks stay where they are. Keeps the
/// memory of some that have ended for those that come, so that operations need none.
class TaskQueue {
 public:
  using iterator = std::list<Task>::iterator;
  using const_iterator = std::list<Task>::const_iterator;

  bool empty() const { return tasks_.size() == 0; }  // every call asks: one comparison
  Task& front() { return tasks_.front(); }
  const Task& front() const { return tasks_.front(); }
  const Task& back() const { return tasks_.back(); }
  iterator begin() { return tasks_.begin(); }
  iterator end() { return tasks_.end(); }
  const_iterator begin() const { return tasks_.begin(); }
  const_iterator end() const { return tasks_.end(); }

  /// A new task at the end.
  Task& append() {
    if (spare_.empty()) return tasks_.emplace_back();
    tasks_.splice(tasks_.end(), spare_, spare_.begin());
    return tasks_.back();
  }
  void push_back(Task task) { append() = std::move(task); }
  void insert(const_iterator place, Task task) { tasks_.insert(place, std::move(task)); }

  /// A task that is no longer in the queue, which outlives it.
  class Taken {
   public:
    explicit Taken(TaskQueue& queue) : queue_(queue) {
      task_.splice(task_.begin(), queue.tasks_, queue.tasks_.begin());
    }
    ~Taken() {
      constexpr std::size_t most_spare = 16;
      task_.front().clear();
      if (queue_.spare_.size() < most_spare)
        queue_.spare_.splice(queue_.spare_.begin(), task_, task_.begin());
    }
    Taken(const Taken&) = delete;

    Task& operator*() { return task_.front(); }
    Task* operator->() { return &task_.front(); }

   private:
    TaskQueue& queue_;
    std::list<Task> task_;
  };
  /// Takes the first task out of the queue.
  Taken take_front() { return Taken{*this}; }

 private:
  std::list<Task> tasks_, spare_;
};

}  // namespace capstan
