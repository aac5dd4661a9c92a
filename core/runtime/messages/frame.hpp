#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <span>

#include "core/ir/quantity.hpp"

namespace capstan {

/// What travels between two ranks: a header, and for some kinds a payload.
struct Frame {
  enum class Kind : std::uint32_t {
    eager,     ///< a whole message
    offer,     ///< a message that stays where it is until the receiver wants it
    taken,     ///< to the sender of an offer: it has been read, or is not wanted
    stream,    ///< to the sender of an offer: send it in fragments, its memory cannot be read
    fragment,  ///< a piece of an offered message
  };

  Kind kind = Kind::eager;
  std::int32_t tag = 0;
  std::uint64_t size = 0;     ///< of the message
  std::uint64_t id = 0;       ///< of an offer, numbered by its sender
  std::uint64_t address = 0;  ///< of an offer, in the sender's memory
  std::uint32_t payload = 0;  ///< bytes that follow
  std::uint32_t type = 0;     ///< 1 + DataType, or 0
  /// Of an offer: the allocation of the sender that it is in (shared::AllocationId).
  std::uint32_t allocation = 0;
  std::uint32_t unused = 0;
};
static_assert(sizeof(Frame) == 48);

/// A ring of bytes from one rank to another: bytes and their number lie in the sender's segment,
/// how many have been read in the receiver's. Single producer, single consumer.
struct RingHead {
  alignas(64) std::atomic<std::uint64_t> produced;
};
struct RingTail {
  alignas(64) std::atomic<std::uint64_t> consumed;
};

/// Where the rings of one rank lie in its segment: first how much it has read of each peer's ring,
/// then its own ring to each peer.
class RingLayout {
 public:
  RingLayout(int ranks, Bytes ring) : ranks_(static_cast<std::uint64_t>(ranks)), ring_(ring) {}

  Bytes ring() const { return ring_; }
  Bytes tail(int peer) const { return Bytes{sizeof(RingTail) * index(peer)}; }
  Bytes head(int peer) const {
    return Bytes{sizeof(RingTail) * ranks_} + (Bytes{sizeof(RingHead)} + ring_) * index(peer);
  }
  Bytes bytes(int peer) const { return head(peer) + Bytes{sizeof(RingHead)}; }
  Bytes total() const { return head(static_cast<int>(ranks_)); }

 private:
  static std::uint64_t index(int peer) { return static_cast<std::uint64_t>(peer); }

  std::uint64_t ranks_;
  Bytes ring_;
};

/// Bytes of a ring, wherever it wraps.
inline void read_ring(const std::byte* ring, std::uint64_t size, std::uint64_t at, void* to,
                      std::uint64_t length) {
  if (length == 0) return;  // there may be no memory at all
  const std::uint64_t begin = at % size, first = std::min(length, size - begin);
  std::memcpy(to, ring + begin, first);
  std::memcpy(static_cast<std::byte*>(to) + first, ring, length - first);
}
inline void write_ring(std::byte* ring, std::uint64_t size, std::uint64_t at, const void* from,
                       std::uint64_t length) {
  if (length == 0) return;  // there may be no memory at all
  const std::uint64_t begin = at % size, first = std::min(length, size - begin);
  std::memcpy(ring + begin, from, first);
  std::memcpy(ring, static_cast<const std::byte*>(from) + first, length - first);
}

}  // namespace capstan
