#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/deadline.hpp"

namespace capstan {

/// The key-value store through which the ranks of one communicator exchange data before any
/// transport exists. Keys have 1 to 256 bytes, values up to 64 KiB, and all ranks see the same map.
/// One object per rank, used by one thread at a time.
///
/// Every call throws BootstrapError when the store is gone (the process that hosted it ended), and
/// InvalidArgument for a key or value of a forbidden size.
class Store {
 public:
  virtual ~Store() = default;

  /// Sets `key`; on return every rank can read it. A later put replaces the value.
  virtual void put(std::string_view key, std::span<const std::byte> value) = 0;
  /// Waits until somebody has put `key`. Throws TimedOut naming the key and the ranks that never
  /// joined or have left.
  virtual std::vector<std::byte> get(std::string_view key, Deadline deadline) = 0;
  /// The value of `key` if it is there now.
  virtual std::optional<std::vector<std::byte>> try_get(std::string_view key) = 0;

  void put_text(std::string_view key, std::string_view value);
  std::string get_text(std::string_view key, Deadline deadline);
};

/// Returns when all ranks 0 .. size-1 have called it with the same `name`; a name serves once per
/// store. Throws TimedOut naming the ranks that never came, on every rank that did come, at most a
/// second after the deadline.
///
/// Rank 0 returns last, when no other rank needs the store any more: it may then destroy a store
/// that it hosts.
void barrier(Store& store, std::string_view name, int rank, int size, Deadline deadline);

/// "rank 3", "ranks 3 and 5", "ranks 1, 2, 3 and 40 more"; at most 16 are listed.
std::string list_ranks(std::span<const int> ranks);

}  // namespace capstan
