#include "core/engine/executor/signals.hpp"

#include <atomic>

namespace capstan {

Signals::Signals(Peers& peers, const SegmentLayout& layout, CallLog& log, const ArrivalPoll& poll)
    : peers_(peers), log_(log), poll_(poll), layout_(layout), counts_(peers.count()) {}

void Signals::send(Rank peer) {
  Flag& flag = flag_of(peers_.own_segment(), layout_, peer);
  flag.histories[log_.call() % Flag::history_depth].store(log_.history(),
                                                          std::memory_order_relaxed);
  flag.signals.store(++counts_[peer].sent, std::memory_order_release);
  if (!peers_.mapped(peer)) {
    log_.show(peer);
    peers_.show(peer, flag.signals);
  }
  peers_.wake(peer);
}

bool Signals::wait(Rank peer) {
  Counts& counts = counts_[peer];
  const std::uint64_t next = counts.consumed + 1;
  if (counts.seen < next && !read_flag(peer, next)) return false;
  counts.consumed = next;
  log_.compare(peer, counts.histories);
  return true;
}

/// Polls briefly until the peer has sent `signals` signals. All words of the flag's cache line are
/// read at once: each access to the line is expensive while the peer keeps writing to it.
bool Signals::read_flag(Rank peer, std::uint64_t signals) {
  Counts& counts = counts_[peer];
  const Flag& flag = flag_of(peers_.segment(peer), layout_, peers_.self());
  const auto are_here = [&] {
    return (counts.seen = flag.signals.load(std::memory_order_acquire)) >= signals;
  };
  if (!poll_.until(peer, are_here)) return false;
  for (std::size_t i = 0; i < Flag::history_depth; ++i)
    counts.histories[i] = flag.histories[i].load(std::memory_order_relaxed);
  return true;
}

}  // namespace capstan
