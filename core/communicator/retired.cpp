// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/retired.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// The number of threads that destroy what is retired. This object is never destroyed, as
/// such a thread may outlive static objects.
struct Retiring {
  std::mutex mutex;
  std::condition_variable changed;
  int count = 0;
  bool exit_waits = false;
};

Retiring& retiring() {
  static auto* const one = new Retiring;
  return *one;
}

/// Before CUDA, which the program has used by then, ends itself.
void wait_at_exit() {
  await_retired(Deadline::in(15s));
}

void begin() {
  const std::scoped_lock lock{retiring().mutex};
  if (!std::exchange(retiring().exit_waits, true)) std::atexit(wait_at_exit);
  ++retiring().count;
}

void end() {
  const std::scoped_lock lock{retiring().mutex};
  --retiring().count;
  retiring().changed.notify_all();
}

}  // namespace

void retire(std::function<void()> destroy) {
  begin();
  std::thread{[destroy = std::move(destroy)] {
    destroy();
    end();
  }}.detach();
}

bool await_retired(Deadline deadline) {
  std::unique_lock lock{retiring().mutex};
  while (retiring().count > 0) {
    if (deadline.expired()) return false;
    retiring().changed.wait_for(lock, 10ms);
  }
  return true;
}

}  // namespace capstan
