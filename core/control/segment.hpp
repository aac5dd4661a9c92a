#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "capstan/quantity.hpp"
#include "core/control/packet.hpp"
#include "core/lowering/program.hpp"
#include "core/p2p/messages.hpp"

namespace capstan {

/// What a rank has called, for its peers to compare with what they have called. Written at the
/// start of each call; the n-th call stands in entry n % kept of the list. One look at the history
/// compares all calls so far. Words show one by one, so what differs counts only where the check
/// says that all words are of the same call.
struct alignas(64) CallRecord {
  static constexpr std::size_t kept = 256;

  std::atomic<std::uint64_t> call;       ///< number of the call, from 1; written last
  std::atomic<std::uint64_t> signature;  ///< see CallMark
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> root;
  std::atomic<std::uint64_t> tensor;
  std::atomic<std::uint64_t> history;  ///< digest of this and all calls before it
  std::atomic<std::uint64_t> check;    ///< digest of all of the above
};

/// Where the buffers of a call lie in the rank's own memory.
struct CallBuffers {
  std::atomic<std::uint64_t> input, output;
  /// The allocations that they are in, which peers may see (shared::AllocationId): the input's, and
  /// above it the output's.
  std::atomic<std::uint64_t> allocations;
};

/// Why a rank has given up; adopted by all others.
struct alignas(64) AbortRecord {
  static constexpr std::size_t text_bytes = 1008;

  std::atomic<std::uint32_t> kind;  ///< 0: none; a FailureKind, written last
  std::int32_t culprit;
  char text[text_bytes];
};

/// What a rank has done with.
struct Finished {
  /// Over all calls: what it read of peers' staging buffers up to there may be overwritten.
  std::atomic<std::uint64_t> blocks;
  std::atomic<std::uint64_t> calls;    ///< by then
  std::atomic<std::uint64_t> history;  ///< CallRecord::history of the last of them
};

/// The begin of a segment. Written by the owner, read by all.
struct Control {
  alignas(64) Finished finished;
  alignas(64) std::atomic<std::uint32_t> left;              ///< this rank's communicator is gone
  alignas(64) std::atomic<std::uint32_t> in_their_buffers;  ///< those of peers, at this moment
  CallRecord calls[CallRecord::kept];
  CallBuffers buffers[CallRecord::kept];
  AbortRecord abort;
};
static_assert(sizeof(Control) <= 32768);

/// One flag per peer, each in a line of its own.
struct alignas(64) Flag {
  static constexpr std::size_t kept = 4;

  std::atomic<std::uint64_t> signals;    ///< sent to it so far
  std::atomic<std::uint64_t> abandoned;  ///< times that it was no longer waited for while it read
  /// CallRecord::history of the calls of the last signals, that of call n in entry n % kept: who
  /// finds its own there need not look at the record. Not shown to other hosts.
  std::atomic<std::uint64_t> histories[kept];
};
static_assert(sizeof(Flag) == 64);

/// The kinds of slots: what a call sends goes into one of them. There are many of the small ones,
/// so that who only sends may run ahead, and where ranks share a core the one that has it gets far
/// before it gives it up. Packets have slots of their own: their tags must not be met by chance.
enum class SlotKind : std::uint8_t { small_packets, packets, tiny_staging, small_staging, staging };
inline constexpr SlotKind all_slot_kinds[] = {SlotKind::small_packets, SlotKind::packets,
                                              SlotKind::tiny_staging, SlotKind::small_staging,
                                              SlotKind::staging};
inline constexpr int slot_kinds = static_cast<int>(std::size(all_slot_kinds));

/// Where things lie in a segment, the same on all ranks:
///
///   control | flag per peer | slots, by kind | messages
///
/// Of each kind first come the first regions of all slots, then the second ones, which fewer calls
/// use.
///
/// Slots rotate from one operation (or one block of a long one) to the next, so that nobody waits
/// for the readers of the last one. For calls that finish only after all have entered them, two
/// packet slots and three staging buffer slots (a stream's blocks overlap) never meet a reader;
/// others look at what the readers have finished when a slot comes round. The verifier checks it
/// all.
class SegmentLayout {
 public:
  static constexpr int slots(SlotKind kind) {
    switch (kind) {
      case SlotKind::small_packets:
        return 96;
      case SlotKind::tiny_staging:
        return 32;
      case SlotKind::small_staging:
        return 16;
      case SlotKind::packets:
        return 4;
      case SlotKind::staging:
        break;
    }
    return 3;
  }
  /// The smallest kind for a staging buffer of this size that is one block.
  static constexpr SlotKind kind_for(Bytes staging, bool packets) {
    const auto fits = [&](SlotKind kind) { return staging <= fixed_region(kind); };
    if (packets) return fits(SlotKind::small_packets) ? SlotKind::small_packets : SlotKind::packets;
    if (fits(SlotKind::tiny_staging)) return SlotKind::tiny_staging;
    return fits(SlotKind::small_staging) ? SlotKind::small_staging : SlotKind::staging;
  }
  static constexpr bool is_packets(SlotKind kind) {
    return kind == SlotKind::packets || kind == SlotKind::small_packets;
  }
  /// Of these there are so many that writers on other hosts need to be told but rarely.
  static constexpr bool is_small(SlotKind kind) {
    return kind != SlotKind::packets && kind != SlotKind::staging;
  }

  /// Which slot of its kind is the `number`-th to be used. Divides by constants only.
  static constexpr std::uint64_t turn(SlotKind kind, std::uint64_t number) {
    switch (kind) {
      case SlotKind::small_packets:
        return number % count(SlotKind::small_packets);
      case SlotKind::tiny_staging:
        return number % count(SlotKind::tiny_staging);
      case SlotKind::small_staging:
        return number % count(SlotKind::small_staging);
      case SlotKind::packets:
        return number % count(SlotKind::packets);
      case SlotKind::staging:
        break;
    }
    return number % count(SlotKind::staging);
  }

  /// `message_ring`: from each rank to each other.
  SegmentLayout(int ranks, Bytes staging_region, Bytes message_ring)
      : ranks_(ranks), staging_region_(round(staging_region)), message_ring_(message_ring) {}

  Bytes flags() const { return round(Bytes{sizeof(Control)}); }
  Bytes slot(SlotKind kind, std::uint64_t number) const {
    Bytes begin = flags() + round(Bytes{sizeof(Flag)} * ranks());
    for (const SlotKind before : all_slot_kinds)
      if (before < kind) begin += bytes(before);
    return begin + region(kind) * turn(kind, number);
  }
  /// From the first region of a slot to its second.
  Bytes between_regions(SlotKind kind) const { return region(kind) * count(kind); }
  Bytes messages() const { return slot(SlotKind::staging, 0) + bytes(SlotKind::staging); }
  Bytes message_ring() const { return message_ring_; }
  Bytes total() const { return messages() + round(Messages::area(ranks_, message_ring_)); }
  /// One of the two regions of a slot. A rank on its own has nothing to stage.
  Bytes region(SlotKind kind) const {
    if (ranks_ == 1) return Bytes{0};
    return kind == SlotKind::staging ? staging_region_ : fixed_region(kind);
  }
  /// Of all kinds but staging buffer. Those of small slots are an odd number of lines: what small
  /// calls write, the first lines of slot after slot, does not all fall into one set of a cache. In
  /// small packets a rank sends a few elements of any type to 7 others.
  static constexpr Bytes fixed_region(SlotKind kind) {
    constexpr Bytes line{64};
    switch (kind) {
      case SlotKind::small_packets:
        return line * 73;
      case SlotKind::tiny_staging:
        return line * 33;
      case SlotKind::small_staging:
        return line * 129;
      default:
        return line * 512;
    }
  }

 private:
  static constexpr std::uint64_t page = 4096;
  static constexpr std::uint64_t count(SlotKind kind) {
    return static_cast<std::uint64_t>(slots(kind));
  }
  Bytes bytes(SlotKind kind) const { return round(between_regions(kind) * staging_regions); }
  static Bytes round(Bytes bytes) { return Bytes{(bytes.value() + page - 1) / page * page}; }
  std::uint64_t ranks() const { return static_cast<std::uint64_t>(ranks_); }

  int ranks_;
  Bytes staging_region_, message_ring_;
};

/// However far a rank runs ahead, what it has called can still be compared.
static_assert([] {
  std::size_t calls = 0;
  for (const SlotKind kind : all_slot_kinds)
    calls += static_cast<std::size_t>(SegmentLayout::slots(kind));
  return calls < CallRecord::kept;
}());

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
