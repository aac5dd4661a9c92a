#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/ir/quantity.hpp"
#include "core/runtime/messages/messages.hpp"
#include "core/runtime/packet.hpp"

namespace capstan {

/// What a rank has called, for its peers to compare with what they have called. Written at the
/// start of each call; the n-th call stands in entry n % kept of the list.
struct alignas(64) CallRecord {
  static constexpr std::size_t kept = 16;

  std::atomic<std::uint64_t> call;       ///< number of the call, from 1; written last
  std::atomic<std::uint64_t> signature;  ///< see CallMark
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> root;
  std::atomic<std::uint64_t> tensor;
  std::atomic<std::uint64_t> input;  ///< where the rank's input lies in its own memory
};

/// Why a rank has given up; adopted by all others.
struct alignas(64) AbortRecord {
  static constexpr std::size_t text_bytes = 1008;

  std::atomic<std::uint32_t> kind;  ///< 0: none; a FailureKind, written last
  std::int32_t culprit;
  char text[text_bytes];
};

/// First page of a segment. Written by the owner, read by all.
struct Control {
  /// Blocks that this rank has finished, over all calls: what it read of peers' boards up to there
  /// may be overwritten.
  alignas(64) std::atomic<std::uint64_t> finished;
  alignas(64) std::atomic<std::uint32_t> left;  ///< this rank's communicator is gone
  CallRecord calls[CallRecord::kept];
  AbortRecord abort;
};
static_assert(sizeof(Control) <= 4096);

/// One flag per peer, each in a line of its own: the number of signals sent to it so far.
struct alignas(64) Flag {
  std::atomic<std::uint64_t> signals;
};

/// Where things lie in a segment, the same on all ranks:
///
///   control | flag per peer | packet slots | board slots | messages
///
/// Slots rotate from one operation (or one block of a long one) to the next, so that nobody waits
/// for the readers of the last one. For calls that finish only after all have entered them, two
/// packet slots and three board slots (a stream's blocks overlap) never meet a reader; others look
/// at what peers have finished when a slot comes round. The verifier checks it all.
class SegmentLayout {
 public:
  static constexpr int packet_slots = 4;
  static constexpr int board_slots = 3;
  static constexpr Bytes packet_slot{64 << 10};
  static constexpr Bytes message_ring{64 << 10};

  SegmentLayout(int ranks, Bytes board_region)
      : ranks_(ranks), board_region_(round(board_region)) {}

  Bytes flags() const { return Bytes{page}; }
  Bytes packets() const { return flags() + round(Bytes{sizeof(Flag)} * ranks()); }
  Bytes boards() const { return packets() + packet_slot * packet_slots; }
  Bytes messages() const { return boards() + board_slot() * board_slots; }
  Bytes total() const { return messages() + round(Messages::area(ranks_, message_ring)); }
  Bytes board_slot() const { return board_region_ * 2; }
  /// One of the two regions of a board slot, or of a packet slot.
  Bytes region(bool packets) const { return packets ? packet_slot / 2 : board_region_; }

 private:
  static constexpr std::uint64_t page = 4096;
  static Bytes round(Bytes bytes) { return Bytes{(bytes.value() + page - 1) / page * page}; }
  std::uint64_t ranks() const { return static_cast<std::uint64_t>(ranks_); }

  int ranks_;
  Bytes board_region_;
};

/// Typed views of a segment's parts.
inline const Control& control_of(const std::byte* segment) {
  return *reinterpret_cast<const Control*>(segment);
}
inline Control& control_of(std::byte* segment) {
  return *reinterpret_cast<Control*>(segment);
}
inline const Flag& flag_of(const std::byte* segment, const SegmentLayout& layout, int peer) {
  return reinterpret_cast<const Flag*>(segment + layout.flags().value())[peer];
}
inline Flag& flag_of(std::byte* segment, const SegmentLayout& layout, int peer) {
  return reinterpret_cast<Flag*>(segment + layout.flags().value())[peer];
}

}  // namespace capstan
