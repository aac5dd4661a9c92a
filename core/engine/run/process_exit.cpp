// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/process_exit.hpp"

#include <atomic>
#include <cstdlib>

namespace capstan {
namespace {

std::atomic<bool> exits = false;

}  // namespace

void watch_for_exit() {
  // The system keeps handlers for good. A program that makes more communicators destroys them.
  constexpr int most = 256;
  static std::atomic<int> watched = 0;
  if (watched.load(std::memory_order_relaxed) < most && watched.fetch_add(1) < most)
    std::atexit([] { exits.store(true); });
}

bool process_exits() {
  return exits.load(std::memory_order_relaxed);
}

}  // namespace capstan
