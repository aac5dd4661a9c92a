// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "capstan/by_rank.hpp"
#include "capstan/quantity.hpp"
#include "capstan/types.hpp"
#include "core/schedule/lowering/protocol.hpp"

// Flow control: the slots that a rank writes its data to, and when it may write to a slot again.
// The executor, the simulator and the verifier call this code, so that proofs and predictions are
// about the code that runs.

namespace capstan {

/// A staging buffer has two regions. In a stream of blocks, peers may still read the data of a
/// later phase while the first phase of a later block is written, and blocks of different size lay
/// their areas out differently. Regions keep the two phases apart.
inline constexpr int staging_regions = 2;

/// Staging buffers are allocated in units of this many elements, so that every area starts on a
/// cache line whatever the element type is, and areas can be turned into packets.
inline constexpr Elements staging_unit{64};

/// A packet is one cache line: its payload, and after that its tag.
inline constexpr std::size_t packet_bytes = 64, packet_payload_bytes = 56;

/// The tag of a message: its number and a digest of its call, so that a packet of a different call
/// never passes for the awaited one. Never 0, the content of a line before its first use.
constexpr std::uint64_t packet_tag(std::uint64_t message, std::uint32_t call_digest) {
  return static_cast<std::uint64_t>(call_digest) << 32 | ((message + 1) & 0xffff'ffff);
}

/// Elements of `element` bytes that one packet holds.
constexpr std::uint64_t elements_per_packet(Bytes element) {
  return packet_payload_bytes / element.value();
}

/// Packets that hold `count` elements: more than any slot has where an element exceeds a packet.
constexpr std::uint64_t packets_for(Elements count, Bytes element) {
  constexpr std::uint64_t too_many = std::uint64_t{1} << 24;
  const std::uint64_t each = elements_per_packet(element);
  return each == 0 ? count.value() * too_many : (count.value() + each - 1) / each;
}

/// The bytes that so many elements of a staging buffer, whole units, take in this protocol.
constexpr Bytes staging_bytes(Elements staging, Protocol protocol, Bytes element) {
  if (!in_packets(protocol)) return bytes_of(staging, element);
  return Bytes{staging.value() / staging_unit.value() * packets_for(staging_unit, element) *
               packet_bytes};
}

/// The kinds of slots. The data that a call sends go into slots of one kind. There are many small
/// slots: a rank that only sends may run ahead, and where ranks share a core, the running one gets
/// far before it gives the core up. Packets have slots of their own, as data must not be taken for
/// a tag.
enum class SlotKind : std::uint8_t {
  tiny_packets,
  small_packets,
  packets,
  tiny_staging,
  small_staging,
  staging
};
inline constexpr SlotKind all_slot_kinds[] = {SlotKind::tiny_packets,  SlotKind::small_packets,
                                              SlotKind::packets,       SlotKind::tiny_staging,
                                              SlotKind::small_staging, SlotKind::staging};
inline constexpr std::size_t slot_kinds = std::size(all_slot_kinds);

/// A value for each kind of slot.
template <class T>
struct BySlotKind {
  T tiny_packets, small_packets, packets, tiny_staging, small_staging, staging;

  constexpr const T& operator[](SlotKind kind) const {
    switch (kind) {
      case SlotKind::tiny_packets:
        return tiny_packets;
      case SlotKind::small_packets:
        return small_packets;
      case SlotKind::packets:
        return packets;
      case SlotKind::tiny_staging:
        return tiny_staging;
      case SlotKind::small_staging:
        return small_staging;
      case SlotKind::staging:
        break;
    }
    return staging;
  }
};

/// The number of slots of each kind that a rank has, and the length of their regions.
struct SlotPool {
  BySlotKind<int> count;
  BySlotKind<Bytes> region;  ///< `staging` is a setting: see SlotLayout
  /// Small calls from one notice to writers on other hosts to the next: at most the number of slots
  /// of any small kind. A writer that has used all its slots waits for a notice. With a longer
  /// interval the reader would wait for that writer before it sends the notice: a deadlock.
  int calls_per_notice;
  /// Whether calls in packets are cut into blocks, each in a slot of packets, if ranks have no
  /// parts of the buffers. Otherwise a call fits one slot, or does not go in packets.
  bool cuts_packets = false;

  /// The same pool with slots of one kind alone, and at most so many of them: all that a simulation
  /// of as many blocks needs.
  constexpr SlotPool only(SlotKind kind, int at_most) const {
    const auto left = [&](SlotKind k) { return k == kind ? std::min(count[k], at_most) : 0; };
    SlotPool pool = *this;
    pool.count = {.tiny_packets = left(SlotKind::tiny_packets),
                  .small_packets = left(SlotKind::small_packets),
                  .packets = left(SlotKind::packets),
                  .tiny_staging = left(SlotKind::tiny_staging),
                  .small_staging = left(SlotKind::small_staging),
                  .staging = left(SlotKind::staging)};
    return pool;
  }
  constexpr bool fits(Bytes staging, SlotKind kind) const { return staging <= region[kind]; }
  /// The smallest kind whose regions hold this much. Streams of blocks use slots of full length,
  /// unless packets are cut.
  /// `longest`: of the packets with a part of the data. They take at most half of a tiny slot: a
  /// reader at the end of a slot seems to fetch lines of the next one, which the writer needs then.
  // measured: docs/lab-notebook.md#lines-of-the-next-slot
  constexpr SlotKind kind_for(Bytes staging, bool packets, bool stream, Bytes longest = {}) const {
    if (packets && cuts_packets) return SlotKind::packets;
    if (stream) return SlotKind::staging;
    if (packets && fits(staging, SlotKind::tiny_packets) && longest * 2 <= region.tiny_packets)
      return SlotKind::tiny_packets;
    if (packets)
      return fits(staging, SlotKind::small_packets) ? SlotKind::small_packets : SlotKind::packets;
    if (fits(staging, SlotKind::tiny_staging)) return SlotKind::tiny_staging;
    return fits(staging, SlotKind::small_staging) ? SlotKind::small_staging : SlotKind::staging;
  }
};

/// Small regions are an odd number of cache lines, so that the first lines of slots spread over the
/// sets of a cache. A slot of tiny packets holds one unit of elements of any type, and the slots of
/// a rank lie in few pages, as each page costs a program's first calls a fault. A slot of small
/// packets holds a unit for each of 7 other ranks.
// measured: docs/lab-notebook.md#slots
inline constexpr SlotPool standard_slots{.count = {.tiny_packets = 96,
                                                   .small_packets = 96,
                                                   .packets = 4,
                                                   .tiny_staging = 32,
                                                   .small_staging = 16,
                                                   .staging = 3},
                                         .region = {.tiny_packets = Bytes{11 * 64},
                                                    .small_packets = Bytes{73 * 64},
                                                    .packets = Bytes{512 * 64},
                                                    .tiny_staging = Bytes{33 * 64},
                                                    .small_staging = Bytes{129 * 64},
                                                    .staging = Bytes{0}},
                                         .calls_per_notice = 8};

/// The slots that a lane has in each segment on a device. Two kinds do: a lane runs one block at a
/// time, and small calls go in packets.
inline constexpr SlotPool device_slots{.count = {.tiny_packets = 0,
                                                 .small_packets = 0,
                                                 .packets = 8,
                                                 .tiny_staging = 0,
                                                 .small_staging = 0,
                                                 .staging = 3},
                                       .region = {.tiny_packets = Bytes{0},
                                                  .small_packets = Bytes{0},
                                                  .packets = Bytes{128 * packet_bytes},
                                                  .tiny_staging = Bytes{0},
                                                  .small_staging = Bytes{0},
                                                  .staging = Bytes{0}},
                                       .calls_per_notice = 1,
                                       .cuts_packets = true};

constexpr bool is_packets(SlotKind kind) {
  return kind <= SlotKind::packets;
}
constexpr bool is_small(SlotKind kind) {
  return kind != SlotKind::packets && kind != SlotKind::staging;
}

/// The layout of a rank's slots, the same on all ranks: the slots of one kind after the slots of
/// the kind before. Of each kind first come the first regions of all slots, then the second
/// regions, which fewer calls use.
class SlotLayout {
 public:
  /// A rank on its own stages nothing: its slots have no bytes.
  SlotLayout(int ranks, Bytes staging_region, const SlotPool& pool = standard_slots);

  const SlotPool& pool() const { return pool_; }
  /// One of the two regions of a slot.
  Bytes region(SlotKind kind) const { return pool_.region[kind]; }
  /// The distance from the first region of a slot to its second.
  Bytes between_regions(SlotKind kind) const { return region(kind) * count(kind); }
  /// The bytes of each region of a long slot that hold places (SlotPlaces). Those of all slots
  /// together exceed the second cache of a core.
  Bytes room_for_places() const;
  /// The distance from the first slot of all to the first region of this slot.
  Bytes offset(SlotKind kind, int slot) const;
  /// The bytes of all slots.
  Bytes total() const { return offset(SlotKind::staging, 0) + bytes(SlotKind::staging); }

 private:
  std::uint64_t count(SlotKind kind) const { return static_cast<std::uint64_t>(pool_.count[kind]); }
  Bytes bytes(SlotKind kind) const;

  SlotPool pool_;
};

/// The places in a slot for the data of calls that are shorter than the slot. The place moves with
/// each turn through the slots. Otherwise a rank would soon write the same lines again, which its
/// own cache still holds and those of readers share: that takes twice as long as to write others.
/// The flow control guards the slot as a whole, and proofs put all blocks at its beginning.
// measured: docs/lab-notebook.md#places-in-slots
struct SlotPlaces {
  std::uint64_t count = 1;
  std::uint64_t distance = 0;  ///< bytes from one to the next
};

/// The ranks that read what a rank has written to a slot.
using SlotReaders = std::shared_ptr<const std::vector<Rank>>;

/// The slots of one rank, and for each the ranks that must finish before it is written again.
///
/// Slots rotate from one block to the next, so that a rank need not wait for the readers of the
/// block before. All ranks rotate alike, so that readers know the slot without communication. A
/// writer may reuse a slot only after all readers of its last block have finished that block.
/// Blocks are numbered through all calls, from 0.
class SlotRotation {
 public:
  struct Slot {
    std::uint64_t offset;            ///< of its first region
    std::uint64_t must_finish = 0;   ///< blocks that its readers finish before it is written again
    SlotReaders readers = nobody();  ///< of the last block that was written to the slot
  };

  /// Offsets of slots count from `begin`.
  explicit SlotRotation(const SlotLayout& layout, Bytes begin = {});

  /// Number of the current call's first block.
  std::uint64_t first_block() const { return first_block_; }
  /// The slot of a block of the current call.
  Slot& slot(SlotKind kind, std::uint64_t block) {
    const Kind& k = kinds_[static_cast<std::size_t>(kind)];
    return slots_[k.first + (block == 0 ? k.next : (k.next + block) % k.count)];
  }
  /// The distance in bytes from the beginning of that slot to the place of the block's data in it.
  std::uint64_t place(SlotKind kind, std::uint64_t block, const SlotPlaces& places) const {
    if (places.count == 1) return 0;
    const Kind& k = kinds_[static_cast<std::size_t>(kind)];
    return (k.turns + (k.next + block) / k.count) % places.count * places.distance;
  }
  /// The distance in bytes from a slot to the slot that is used `ahead` blocks later. `ahead` is at
  /// most the number of slots.
  std::ptrdiff_t distance(SlotKind kind, const Slot& slot, std::size_t ahead) const {
    const Kind& k = kinds_[static_cast<std::size_t>(kind)];
    std::size_t later = static_cast<std::size_t>(&slot - slots_.data()) + ahead;
    if (later >= k.first + k.count) later -= k.count;
    return static_cast<std::ptrdiff_t>(slots_[later].offset - slot.offset);
  }
  /// Whether all readers are known to have finished the slot's last block without a look at their
  /// segments: a call that synchronizes has ended since, or the steps of the call guarantee it (see
  /// Guarantees::bounded_skew).
  bool is_free(const Slot& slot, bool bounded_skew) const {
    return slot.must_finish <= finished_by_all_ ||
           (bounded_skew && slot.must_finish > first_block_);
  }
  /// Records that a block of the current call is written to the slot, for these readers.
  void write(Slot& slot, std::uint64_t block, const SlotReaders& readers) {
    slot.must_finish = first_block_ + block + 1;
    if (slot.readers != readers) slot.readers = readers;
  }
  /// Ends the current call, which has so many blocks. If it synchronizes, all ranks have entered
  /// it, and so have finished the calls before.
  void end_call(SlotKind kind, std::uint64_t blocks, bool synchronizes) {
    Kind& k = kinds_[static_cast<std::size_t>(kind)];
    k.next += blocks;
    if (k.next >= k.count) {
      k.turns += blocks == 1 ? 1 : k.next / k.count;
      k.next = blocks == 1 ? 0 : k.next % k.count;
    }
    if (synchronizes) finished_by_all_ = first_block_;
    first_block_ += blocks;
  }

 private:
  static const SlotReaders& nobody();

  struct Kind {
    std::size_t first = 0, count = 0;  ///< of slots_
    std::uint64_t next = 0;            ///< for the first block of the current call
    std::uint64_t turns = 0;           ///< through all slots, before `next`
  };
  std::array<Kind, slot_kinds> kinds_;
  std::vector<Slot> slots_;
  std::uint64_t first_block_ = 0;
  std::uint64_t finished_by_all_ = 0;  ///< blocks that all ranks have certainly finished
};

/// The interval n at which the end of a call of this kind tells writers on other hosts which blocks
/// are finished: at each n-th call; 0: never, as the call synchronizes.
constexpr int notice_interval(SlotKind kind, std::uint64_t blocks, bool synchronizes,
                              const SlotPool& pool) {
  if (blocks > 1) return 1;
  if (synchronizes) return 0;
  return is_small(kind) ? pool.calls_per_notice : 1;
}

/// Decides when a rank tells writers on other hosts which blocks it has finished. (Writers on its
/// own host see that in its segment.) Each notice is a message of its own, so small calls withhold
/// it for a while.
class FinishNotices {
 public:
  explicit FinishNotices(int ranks, const SlotPool& pool = standard_slots);

  /// Records that staging buffers of `writers` have been read, up to so many blocks.
  void note_read(const std::vector<Rank>& writers, std::uint64_t blocks) {
    for (const Rank writer : writers) read_[writer] = blocks;
  }
  /// Whether writers are told at the end of this call.
  bool tells_after(SlotKind kind, std::uint64_t blocks, bool synchronizes) {
    const int interval = notice_interval(kind, blocks, synchronizes, pool_);
    if (interval == 0 || (interval > 1 && ++withheld_ < interval)) return false;
    if (blocks == 1) withheld_ = 0;
    return true;
  }
  /// Whether a notice to this writer is due. From now on the writer counts as told of so many
  /// finished blocks.
  bool is_due(Rank writer, std::uint64_t finished) {
    std::uint64_t& told = told_[writer];
    if (told >= read_[writer]) return false;
    told = finished;
    return true;
  }

 private:
  const SlotPool pool_;
  ByRank<std::uint64_t> read_, told_;  // blocks, by writer
  int withheld_ = 0;                   // small calls since the last notice
};

}  // namespace capstan
