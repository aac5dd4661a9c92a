// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace capstan::nccl {

/// Runs functions beside each other, as each may wait for another one: ranks of one process meet
/// only if each waits on a thread of its own. One alone runs on this thread. Throws the first
/// error.
inline void run_side_by_side(const std::vector<std::function<void()>>& functions) {
  if (functions.size() == 1) return functions.front()();
  std::vector<std::exception_ptr> errors(functions.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < functions.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        functions[i]();
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace capstan::nccl
