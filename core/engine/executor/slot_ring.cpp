#include "core/engine/executor/slot_ring.hpp"

namespace capstan {

SlotRing::SlotRing(Peers& peers, const SegmentLayout& layout, CallLog& log, const ArrivalPoll& poll)
    : peers_(peers),
      log_(log),
      poll_(poll),
      finished_(control_of(peers.own_segment()).finished),
      rotation_(layout.slots(), layout.first_slot()),
      notices_(peers.count(), layout.slots().pool()),
      known_finished_(peers.count()) {}

/// Polls briefly until the reader has finished the block that was last written to the current slot.
bool SlotRing::finishes(Rank reader) {
  std::uint64_t& known = known_finished_[reader];
  const Finished& theirs = peers_.control(reader).finished;
  const auto has_finished = [&] {
    return (known = theirs.blocks.load(std::memory_order_acquire)) >= slot_->must_finish;
  };
  if (!has_finished() && !poll_.until(reader, has_finished)) return false;
  log_.compare(reader, theirs);
  return true;
}

std::vector<Rank> SlotRing::unfinished_readers() const {
  std::vector<Rank> ranks;
  for (const Rank reader : *slot_->readers)
    if (peers_.control(reader).finished.blocks.load(std::memory_order_acquire) < slot_->must_finish)
      ranks.push_back(reader);
  return ranks;
}

void SlotRing::finish_block(const Plan& plan, std::uint64_t block) {
  const std::uint64_t blocks = first_block() + block + 1;
  publish(blocks);
  notices_.note_read(plan.remote_writers, blocks);
  tell_writers();
}

/// Sends notices to writers on other hosts, which need them before they write to the slots again.
void SlotRing::tell_writers() {
  for (const Rank peer : peers_.posted()) {
    if (!notices_.is_due(peer, finished_.blocks.load(std::memory_order_relaxed))) continue;
    peers_.show(peer, finished_);
    peers_.wake(peer);
  }
}

}  // namespace capstan
