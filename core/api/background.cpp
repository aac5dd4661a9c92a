#include "core/api/background.hpp"

#include <algorithm>

#include "core/engine/process_exit.hpp"
#include "core/net/limits.hpp"

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
  if (!started_) start_thread("background", [this] { run(); }).detach();
  started_ = true;
  entries_.push_back({when, std::move(task)});
  changed_.notify_one();
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
    if (due == Clock::time_point::max() || process_exits())
      changed_.wait(lock);
    else if (due > Clock::now())
      changed_.wait_until(lock, due);
    else
      run_due(lock);
  }
}

/// Calls each task that is due once, without the lock.
void Background::run_due(std::unique_lock<std::mutex>& lock) {
  const auto now = Clock::now();
  const auto later = std::partition(entries_.begin(), entries_.end(),
                                    [&](const Entry& entry) { return entry.due > now; });
  std::vector<Entry> due(std::make_move_iterator(later), std::make_move_iterator(entries_.end()));
  entries_.erase(later, entries_.end());
  lock.unlock();
  std::erase_if(due, [](Entry& entry) {
    const auto again = entry.task();
    if (again) entry.due = Clock::now() + *again;
    return !again;
  });
  lock.lock();
  std::ranges::move(due, std::back_inserter(entries_));
}

}  // namespace capstan
