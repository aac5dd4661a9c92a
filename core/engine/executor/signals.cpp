// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/signals.hpp"

#include <atomic>

#include "core/engine/control/cache_lines.hpp"

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

bool Signals::wait(Rank peer, const PrefetchedLines& lines) {
  Counts& counts = counts_[peer];
  const std::uint64_t next = counts.consumed + 1;
  if (counts.seen < next && !read_flag(peer, next, lines)) return false;
  counts.consumed = next;
  log_.compare(peer, counts.histories);
  return true;
}

/// Polls briefly until the peer has sent `signals` signals. All words of the flag's cache line are
/// read at once: each access to the line is expensive while the peer keeps writing to it. An
/// earlier prefetch of `lines` would take them from a peer that is still writing. Where the peer is
/// ahead, nothing is prefetched, as that made calls in a row slower.
bool Signals::read_flag(Rank peer, std::uint64_t signals, const PrefetchedLines& lines) {
  Counts& counts = counts_[peer];
  const Flag& flag = flag_of(peers_.segment(peer), layout_, peers_.self());
  const auto are_here = [&] {
    return (counts.seen = flag.signals.load(std::memory_order_acquire)) >= signals;
  };
  if (!poll_.until(peer, are_here)) return false;
  for (std::size_t i = 0; i < Flag::history_depth; ++i)
    counts.histories[i] = flag.histories[i].load(std::memory_order_relaxed);
  if (counts.seen == signals)
    for (std::uint32_t i = 0; i < lines.count; ++i)
      prefetch_for_read(lines.first + i * cache_line_bytes);
  return true;
}

}  // namespace capstan
