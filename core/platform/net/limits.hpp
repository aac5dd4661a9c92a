// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "capstan/error.hpp"

namespace capstan {

/// A limit of this process.
struct Limit {
  static constexpr std::uint64_t none = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t most = none;
  bool is_set() const { return most != none; }
};
/// `resource` as for getrlimit(2).
Limit limit_of(int resource);

/// The number of descriptors that this process has open.
std::uint64_t open_descriptors();

/// The limit behind the error of a system call, with its value and what to do: "all 64 descriptors
/// that this process may have are in use (RLIMIT_NOFILE): raise it, ulimit -n". Empty for errors
/// that have nothing to do with a limit.
std::string limit_behind(int error);
/// The same for an error of starting a thread or a process.
std::string limit_of_threads();

/// Throws the SystemError for a thread that could not be started.
[[noreturn]] void refuse_thread(std::string_view what, const std::system_error& error);

/// Starts a thread. Throws SystemError that names the limit.
template <class Function>
std::jthread start_thread(std::string_view what, Function&& function) {
  try {
    return std::jthread{std::forward<Function>(function)};
  } catch (const std::system_error& error) {
    refuse_thread(what, error);
  }
}

/// The error for memory that has run out (std::bad_alloc), with the limit.
LimitReached out_of_memory(std::string_view where);

}  // namespace capstan
