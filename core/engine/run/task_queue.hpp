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

  void push_back(Task task) { insert(tasks_.end(), std::move(task)); }
  void insert(const_iterator place, Task task) {
    if (spare_.empty()) return static_cast<void>(tasks_.insert(place, std::move(task)));
    spare_.front() = std::move(task);
    tasks_.splice(place, spare_, spare_.begin());
  }
  Task take_front() {
    Task task = std::move(tasks_.front());
    constexpr std::size_t most_spare = 16;
    if (spare_.size() < most_spare)
      spare_.splice(spare_.begin(), tasks_, tasks_.begin());
    else
      tasks_.pop_front();
    return task;
  }

 private:
  std::list<Task> tasks_, spare_;
};

}  // namespace capstan
