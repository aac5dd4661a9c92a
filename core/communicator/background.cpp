// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/background.hpp"

#include <algorithm>

#include "core/engine/run/process_exit.hpp"
#include "core/platform/net/limits.hpp"
#include "core/platform/net/log.hpp"

namespace capstan {

Background& Background::of_process() {
  Background* known = current.load();
  if (known) return *known;
  auto* const made = new Background;
  if (current.compare_exchange_strong(known, made)) return *made;
  delete made;
  return *known;
}

/// The thread is not here, and the lock may be held for ever.
void Background::become_child() noexcept {
  Background* self = this;
  current.compare_exchange_strong(self, nullptr);
}

void Background::add(Clock::time_point when, Task task) {
  const std::lock_guard lock{mutex_};
  if (!started_) add_thread();
  started_ = true;
  entries_.push_back({when, std::move(task)});
  changed_.notify_one();
}

/// Under the lock.
void Background::add_thread() {
  start_thread("background", [this] { run(); }).detach();
}

Background::Clock::time_point Background::next_due() const {
  const auto first = std::ranges::min_element(entries_, {}, &Entry::due);
  return first == entries_.end() ? Clock::time_point::max() : first->due;
}

/// While exit() destroys what tasks refer to, none is called any more.
void Background::run() {
  std::unique_lock lock{mutex_};
  while (true) {
    const auto due = next_due();
    const bool never = due == Clock::time_point::max() || process_exits();
    if (!never && due <= Clock::now()) {
      run_first(lock);
      continue;
    }
    ++idle_;
    if (never)
      changed_.wait(lock);
    else
      changed_.wait_until(lock, due);
    --idle_;
  }
}

/// Calls the task that is due first, without the lock.
void Background::run_first(std::unique_lock<std::mutex>& lock) {
  const auto first = std::ranges::min_element(entries_, {}, &Entry::due);
  Entry entry = std::move(*first);
  entries_.erase(first);
  if (idle_ > 0)
    changed_.notify_one();  // it waits for another time
  else
    try {
      add_thread();
    } catch (const SystemError& error) {
      log().warn("{}; time limits hold when a callback has ended", error.what());
    }
  lock.unlock();
  const auto again = entry.task();
  if (again)
    entry.due = Clock::now() + *again;
  else
    entry.task = nullptr;  // what it holds may wait for another task
  lock.lock();
  if (again) entries_.push_back(std::move(entry));
}

}  // namespace capstan
