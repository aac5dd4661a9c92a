// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/engine/control/allocation.hpp"

namespace capstan::shared {

/// Identifies one allocation of a rank. Addresses may be used again, ids are not. 0: none.
using AllocationId = std::uint32_t;

/// The shared memory of one rank: its own allocations, and views of its peers' allocations. A world
/// and all groups made from it share one object; ranks here are ranks of the world.
///
/// Thread-safe for own allocations. Views are used by one thread at a time.
class SharedMemory : public std::enable_shared_from_this<SharedMemory> {
 public:
  /// All allocations together may have `limit` bytes; 0: half of the host's memory.
  explicit SharedMemory(Bytes limit);

  /// An own allocation that is to be announced to peers.
  struct Made {
    std::shared_ptr<Allocation> allocation;  ///< frees the memory with its last copy
    AllocationId id = 0;
  };
  /// `size` is not 0. Throws LimitReached, SystemError.
  Made make(Bytes size, Kind kind);
  /// From now on id_of() and mapped_by() know buffers in this allocation, which `viewers` have
  /// mapped.
  void announce(const Made& made, std::vector<int> viewers);

  /// The announced allocation that contains all of this memory; 0 if none does, and for 0 bytes.
  AllocationId id_of(const void* begin, Bytes size) const;
  /// Whether all of these ranks have mapped all of this memory. True for 0 bytes.
  bool mapped_by(const std::vector<int>& ranks, const void* begin, Bytes size) const;

  /// An allocation, described so that peers can map it.
  struct Announcement {
    std::uint64_t address = 0, size = 0, token = 0;
    AllocationId id = 0;
    std::int32_t process = 0, descriptor = 0;
  };
  /// Maps an allocation that a peer has announced; false if this process may not.
  bool add_view(int owner, const Announcement& theirs);
  /// Unmaps memory that its owners have freed.
  void drop_free_views();
  /// The memory at an address of its owner, as mapped into this process; null if it is not.
  std::byte* view(int owner, AllocationId id, std::uint64_t address, Bytes size) const;
  std::size_t views() const { return views_.size(); }

 private:
  struct Own {
    AllocationId id;
    std::uint64_t size;
    std::vector<int> viewers;
  };
  void reserve(Bytes size);
  void release(Bytes size);
  void forget(const std::byte* begin);
  const Own* find(const void* begin, Bytes size) const;

  const Bytes limit_;
  mutable std::mutex mutex_;  // guards what follows
  Bytes used_{};
  AllocationId last_id_ = 0;
  std::map<const std::byte*, Own> own_;  // announced allocations, by address
  std::atomic<bool> has_own_ = false;    // so that id_of() need not lock without allocations

  struct SeenMemory {
    std::uint64_t address;  // at its owner
    View view;
  };
  std::map<std::pair<int, AllocationId>, SeenMemory> views_;  // by owner
};

}  // namespace capstan::shared
