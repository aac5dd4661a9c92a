// SPDX-License-Identifier: Apache-2.0

// The end of a rank's half of a communicator.

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/run/process_exit.hpp"
#include "core/engine/run/progress.hpp"

namespace capstan {

Engine::~Engine() {
  if (!process_exits()) end_cancelled();
  {
    const Progress::Lock lock{*progress_};
    const std::string text = fmt::format("rank {} destroyed its communicator", self_.value());
    // Published before buffers are given back: peers may be reading them.
    peers_.own_control().left.store(1, std::memory_order_seq_cst);
    fail_all(std::make_exception_ptr(Aborted(text + " while this operation was pending")));
    peers_.show_end();
    if (failure_) transport_->end_soon();
    for (Engine* const other : fail_together_) std::erase(other->fail_together_, this);
  }
  const bool last = progress_->remove(*this);
  process_exits() ? progress_->announce_silently() : progress_->announce();
  if (last) progress_->end_threads();
}

void Engine::leave_at_exit() {
  {
    const Progress::Lock lock{*progress_};
    peers_.own_control().left.store(1, std::memory_order_seq_cst);
    peers_.show_end();
    const Deadline longest = Deadline::in(std::chrono::seconds{2});
    const auto sent = [&](Rank peer) { return transport_->pushed(peer); };
    while (!std::ranges::all_of(peers_.posted(), sent) && !longest.expired())
      transport_->progress();
  }
  progress_->leave_at_exit();
}

void Engine::watch_for_exit() {
  if (!std::exchange(watches_exit_, true)) capstan::watch_for_exit();
}

/// Nobody waits for what is pending here, but peers do for its data.
bool Engine::all_are_cancelled() const {
  const auto is_cancelled = [](const Task& task) { return !task.operation && !task.outcome; };
  return busy() && !failure_ && exchanges_ == 0 && std::ranges::all_of(tasks_, is_cancelled);
}

/// Operations that were cancelled move on as long as there is progress.
void Engine::end_cancelled() {
  constexpr std::chrono::seconds patience{2};
  Deadline longest = Deadline::in(patience);
  std::uint64_t before = 0;
  const auto done = [&] {
    const Progress::Lock lock{*progress_};
    if (!all_are_cancelled()) return true;
    if (executor().progress() != before) longest = Deadline::in(patience);
    before = executor().progress();
    return longest.expired();
  };
  try {
    progress_->drive(done, Deadline::never());
  } catch (const Error&) {  // what a callback of another communicator has thrown
  }
}

}  // namespace capstan
