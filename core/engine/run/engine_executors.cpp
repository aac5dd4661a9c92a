// SPDX-License-Identifier: Apache-2.0

// Tasks that another executor than the processor's runs.

#include <algorithm>

#include "capstan/error.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/run/progress.hpp"

namespace capstan {

void Engine::put(Task task) {
  {
    const Progress::Lock lock{*progress_};
    if (failure_) failure_->raise();
    tasks_.push_back(std::move(task));
  }
  progress_->there_is_work();
}

void Engine::run_by(std::unique_ptr<Executor> executor) {
  const Progress::Lock lock{*progress_};
  if (!executor)
    fail_all(std::make_exception_ptr(
        Aborted("what runs this call was destroyed before the call had ended")));
  other_.swap(executor);  // the former one is destroyed without the lock
  if (other_ && failure_) other_->withdraw_buffers();
}

bool Engine::is_idle() {
  const Progress::Lock lock{*progress_};
  return tasks_.empty();
}

std::chrono::nanoseconds Engine::longest_sleep() const {
  constexpr std::chrono::milliseconds while_tasks_run{1};
  const std::chrono::nanoseconds usual = Progress::longest_sleep.load();
  const bool tasks_run = other_ && !tasks_.empty();
  return tasks_run ? std::min<std::chrono::nanoseconds>(while_tasks_run, usual) : usual;
}

}  // namespace capstan
