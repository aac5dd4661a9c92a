#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "capstan/by_rank.hpp"
#include "core/control/call_log.hpp"
#include "core/control/peers.hpp"
#include "core/control/segment.hpp"
#include "core/lowering/plan.hpp"

namespace capstan {

/// The slots that a rank writes what it sends to, and what it tells its peers about those that it
/// has read. The rules are in core/lowering/slots.hpp; this class looks at the peers' side of them
/// and publishes this rank's.
///
/// Used by one thread at a time.
class SlotRing {
 public:
  SlotRing(Peers& peers, CallLog& log, const SegmentLayout& layout);

  /// Number of the current call's first block; blocks of all calls are numbered.
  std::uint64_t first_block() const { return rotation_.first_block(); }
  /// A call begins. Slots of a stream come round within the call: writers on other hosts are told.
  void begin_call(const Plan& plan) {
    if (plan.blocks > 1) tell_writers();
  }
  /// A block's slot is the current one from now on.
  void enter_block(SlotKind kind, std::uint64_t block) { slot_ = &rotation_.slot(kind, block); }
  /// Of the current slot, in every segment.
  std::uint64_t offset() const { return slot_->offset; }
  /// From the current slot to that of a later call.
  std::ptrdiff_t distance(SlotKind kind, std::size_t calls_ahead) const {
    return rotation_.distance(kind, *slot_, calls_ahead);
  }

  /// Whether the block may be written to the current slot: its last readers have finished. Looks
  /// for that with `comes(peer, condition)`, for a little while. Throws Mismatch.
  template <class Comes>
  bool acquire(const SlotReaders& readers, std::uint64_t block, bool bounded_skew, Comes&& comes) {
    if (readers->empty()) return true;  // nothing is written to it
    if (!rotation_.is_free(*slot_, bounded_skew) && !readers_finish(comes)) return false;
    rotation_.write(*slot_, block, readers);
    return true;
  }
  /// The ranks that have yet to read what is in the current slot.
  std::vector<int> unfinished_readers() const;

  /// Tells peers that a block, and so all before it, has been read; the call goes on.
  void finish_block(const Plan& plan, std::uint64_t block);
  /// A call ends: peers may overwrite what it has read, and see what it has written.
  void end_call(const Plan& plan) {
    rotation_.end_call(plan.slots, plan.blocks, plan.guarantees.synchronizes);
    publish(first_block());
    notices_.note_read(plan.remote_writers, first_block());
    if (!peers_.posted().empty() &&
        notices_.tells_after(plan.slots, plan.blocks, plan.guarantees.synchronizes))
      tell_writers();
  }

 private:
  template <class Comes>
  bool readers_finish(Comes& comes);
  void publish(std::uint64_t blocks) {
    finished_.blocks.store(blocks, std::memory_order_release);
    peers_.wake_mapped();
  }
  void tell_writers();

  Peers& peers_;
  CallLog& log_;
  Finished& finished_;  // by this rank, as peers see it
  SlotRotation rotation_;
  FinishNotices notices_;
  ByRank<std::uint64_t> known_finished_;  // so many blocks
  SlotRotation::Slot* slot_ = nullptr;    // the current one
};

template <class Comes>
bool SlotRing::readers_finish(Comes& comes) {
  for (const int rank : *slot_->readers) {
    const Rank reader{rank};
    std::uint64_t& known = known_finished_[reader];
    if (known >= slot_->must_finish) continue;
    const Finished& theirs = peers_.control(reader).finished;
    const auto finishes = [&] {
      return (known = theirs.blocks.load(std::memory_order_acquire)) >= slot_->must_finish;
    };
    if (!finishes() && !comes(reader, finishes)) return false;
    log_.compare(reader, theirs);
  }
  return true;
}

}  // namespace capstan
