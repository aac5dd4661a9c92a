// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "capstan/by_rank.hpp"
#include "core/engine/control/call_log.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/control/segment.hpp"
#include "core/engine/executor/arrival_poll.hpp"
#include "core/schedule/lowering/plan.hpp"

namespace capstan {

/// The slots that a rank writes to, and the notices of what it has read from the slots of its
/// peers. The rules are in core/schedule/lowering/slots.hpp. This class reads how far the peers
/// are, and publishes how far this rank is.
///
/// Used by one thread at a time.
class SlotRing {
 public:
  SlotRing(Peers& peers, const SegmentLayout& layout, CallLog& log, const ArrivalPoll& poll);

  /// Maps the pages of all slots that the plan writes to, at once, before it first runs. A call
  /// that touches an unmapped page takes up to fifty times as long, and a candidate that is
  /// measured by such calls seems slow. Does nothing where the kernel cannot do it; for blocks that
  /// take a whole slot, of which there are few; and among many ranks, as they would not use most of
  /// the pages.
  void map_pages(const Plan& plan);
  /// Maps the slots of peers that the plan reads, for this process. To be called after calls of the
  /// plan; the first time counts. By then the peers have mapped them: a page belongs to the memory
  /// of the processor that maps it first.
  void map_pages_of_peers(const Plan& plan);
  /// Maps this rank's slots for the shortest calls, which most programs make first.
  void map_pages_of_tiny_slots();

  /// Number of the current call's first block, counted through all calls.
  std::uint64_t first_block() const { return rotation_.first_block(); }
  /// Begins a call. Writers on other hosts get a notice before a stream, which uses slots again
  /// within the call.
  void begin_call(const Plan& plan) {
    if (plan.blocks > 1) tell_writers();
  }
  /// Makes the slot of a block the current one. Returns the offset of the block's data there, in
  /// every segment.
  std::uint64_t enter_block(SlotKind kind, std::uint64_t block, const SlotPlaces& places = {}) {
    slot_ = &rotation_.slot(kind, block);
    return slot_->offset + rotation_.place(kind, block, places);
  }
  /// The distance from the current slot to that of a later call.
  std::ptrdiff_t distance(SlotKind kind, std::size_t calls_ahead) const {
    return rotation_.distance(kind, *slot_, calls_ahead);
  }

  /// Whether the block may be written to the current slot, as the slot's last readers have
  /// finished. Polls for a little while. Throws Mismatch when one of them turns out to be in
  /// another call.
  bool acquire(const SlotReaders& readers, std::uint64_t block, bool bounded_skew) {
    if (readers->empty()) return true;  // nothing is written to it
    if (!rotation_.is_free(*slot_, bounded_skew) && !readers_have_finished()) return false;
    rotation_.write(*slot_, block, readers);
    return true;
  }
  /// The ranks that have yet to read what is in the current slot.
  std::vector<Rank> unfinished_readers() const;

  /// Tells peers that this rank has read a block, and so all before it, while the call continues.
  void finish_block(const Plan& plan, std::uint64_t block);
  /// Ends a call: peers may overwrite what it has read.
  void end_call(const Plan& plan) {
    rotation_.end_call(plan.slots, plan.blocks, plan.guarantees.synchronizes);
    publish(first_block());
    notices_.note_read(plan.remote_writers, first_block());
    if (!peers_.posted().empty() &&
        notices_.tells_after(plan.slots, plan.blocks, plan.guarantees.synchronizes))
      tell_writers();
  }

 private:
  using RegionsOfKinds = std::array<std::array<bool, staging_regions>, slot_kinds>;

  bool maps_pages() const;
  void map_control_pages();
  Bytes begin_of(SlotKind kind, std::size_t region) const;
  void populate_region(const std::byte* segment, SlotKind kind, std::size_t region, int advice);
  void map_region(SlotKind kind, std::size_t region);
  void map_region_of_peer(SlotKind kind, const BoundOperand& operand);
  /// Mostly known_finished_ tells, and no segment of a reader is read.
  bool readers_have_finished() {
    for (const Rank reader : *slot_->readers)
      if (known_finished_[reader] < slot_->must_finish && !finishes(reader)) return false;
    return true;
  }
  bool finishes(Rank reader);
  void publish(std::uint64_t blocks) {
    finished_.blocks.store(blocks, std::memory_order_release);
    peers_.wake_mapped();
  }
  void tell_writers();

  Peers& peers_;
  const SegmentLayout& layout_;
  CallLog& log_;
  const ArrivalPoll& poll_;
  Finished& finished_;  // by this rank, as peers see it
  SlotRotation rotation_;
  FinishNotices notices_;
  ByRank<std::uint64_t> known_finished_;  // blocks, when last read
  SlotRotation::Slot* slot_ = nullptr;    // the current one
  RegionsOfKinds mapped_regions_{};       ///< of this rank's slots
  /// By the owner of the slots: of its segment, and of the alias for long reads.
  ByRank<std::array<RegionsOfKinds, 2>> mapped_regions_of_peers_;
  bool is_control_mapped_ = false;
};

}  // namespace capstan
