// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <thread>
#include <vector>

#include "capstan/communicator.hpp"

namespace capstan {

/// Settings that end a test that would hang.
inline Settings bounded_settings() {
  Settings settings;
  settings.timeout = std::chrono::seconds{60};
  return settings;
}

/// Runs `body(communicator)` on one thread per rank; what it throws is a failure.
template <class Body>
void on_threads(int ranks, const Settings& settings, Body body) {
  auto world = Communicator::local_world(ranks, settings);
  std::vector<std::jthread> threads;
  for (auto& communicator : world)
    threads.emplace_back([&] {
      try {
        body(communicator);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "rank " << communicator.rank() << ": " << error.what();
      }
    });
}

}  // namespace capstan
