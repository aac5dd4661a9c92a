#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "core/control/allocation.hpp"

namespace capstan::shared {

/// Names one allocation of a rank for ever: an address may come again, this does not. 0: none.
using AllocationId = std::uint32_t;

/// What one rank of a world has in shared memory: its own allocations, and views of those of its
/// peers. One for a world and all groups made from it; ranks here are those of the world.
///
/// Own allocations are made, looked up and given back by any thread. Views are used by one thread
/// at a time.
class SharedMemory : public std::enable_shared_from_this<SharedMemory> {
 public:
  /// All allocations together have at most `limit` bytes; 0: half of the host's memory.
  explicit SharedMemory(Bytes limit);

  /// An own allocation that is to be announced to peers.
  struct Made {
    std::shared_ptr<Allocation> allocation;  ///< frees the memory with its last copy
    AllocationId id = 0;
  };
  /// Not of 0 bytes. Throws LimitReached, SystemError.
  Made make(Bytes size, Kind kind);
  /// From now on buffers inside it are known as such; these ranks see it.
  void announce(const Made& made, std::vector<int> viewers);

  /// The allocation that the whole of this memory is in; 0 for any other, and for no bytes.
  AllocationId id_of(const void* begin, Bytes size) const;
  /// Whether the whole of this memory is seen by all of these ranks. No bytes are.
  bool seen_by(const std::vector<int>& ranks, const void* begin, Bytes size) const;

  /// What the owner tells its peers of an allocation.
  struct Announcement {
    std::uint64_t address = 0, size = 0, token = 0;
    AllocationId id = 0;
    std::int32_t process = 0, descriptor = 0;
  };
  /// Makes a view of what a peer has announced; false if this process cannot get at it.
  bool add_view(int owner, const Announcement& theirs);
  /// Lets go of views whose owners have given the memory back.
  void drop_free_views();
  /// Where the memory at an address of its owner is seen from here; null where it is not.
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
  mutable std::mutex mutex_;  // of what follows
  Bytes used_{};
  AllocationId last_id_ = 0;
  std::map<const std::byte*, Own> own_;  // announced ones by where they begin
  std::atomic<bool> has_own_ = false;    // nothing is locked where there is nothing

  struct SeenMemory {
    std::uint64_t address;  // at its owner
    View view;
  };
  std::map<std::pair<int, AllocationId>, SeenMemory> views_;  // by owner
};

}  // namespace capstan::shared
