// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "capstan/deadline.hpp"
#include "capstan/export.hpp"

namespace CAPSTAN_EXPORT capstan {

/// A key-value store through which the ranks of one communicator meet: they exchange data there
/// before any transport exists. Implement it over a store that the program has already, for example
/// PyTorch's TCPStore, and pass it to Communicator::join(). All ranks see the same map.
///
/// Each function is called by one thread at a time, unless one object is passed to several ranks of
/// a process. Keys are printable and have at most 256 bytes, values at most 64 KiB; values hold any
/// bytes and may be empty. What a function throws ends join(), as a BootstrapError that has its
/// text, if it is none of Capstan's errors.
class Store {
 public:
  virtual ~Store() = default;

  /// Sets `key`; on return every rank can read it. A later put replaces the value.
  virtual void put(std::string_view key, std::span<const std::byte> value) = 0;
  /// Waits until some rank has put `key`. Throws TimedOut when the deadline passes before.
  virtual std::vector<std::byte> get(std::string_view key, Deadline deadline) = 0;
  /// The value of `key`, if it is there now.
  virtual std::optional<std::vector<std::byte>> try_get(std::string_view key) = 0;
};

}  // namespace capstan
