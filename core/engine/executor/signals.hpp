// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "capstan/by_rank.hpp"
#include "core/engine/control/call_log.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/control/segment.hpp"
#include "core/engine/executor/arrival_poll.hpp"

namespace capstan {

/// Cache lines that a peer writes before it signals, and that this rank reads next.
struct PrefetchedLines {
  const std::byte* first = nullptr;
  std::uint32_t count = 0;
};

/// Signals from one rank to another: a counter that the sender raises and the receiver watches, the
/// k-th wait for the k-th signal. Beside it stands the history of the sender's calls (see Flag), so
/// that each wait also compares the calls of both ranks.
///
/// Used by one thread at a time.
class Signals {
 public:
  Signals(Peers& peers, const SegmentLayout& layout, CallLog& log, const ArrivalPoll& poll);

  void send(Rank peer);
  /// Consumes the peer's next signal; false if it is not here yet. Prefetches `lines` when the
  /// signal arrives, unless the peer is ahead. Throws Mismatch when the peer sent it in a different
  /// call.
  bool wait(Rank peer, const PrefetchedLines& lines = {});

 private:
  struct Counts {
    std::uint64_t sent = 0, consumed = 0;
    // The peer's flag when it was last read. It may be ahead of what has been consumed.
    std::uint64_t seen = 0, histories[Flag::history_depth] = {};
  };

  bool read_flag(Rank peer, std::uint64_t signals, const PrefetchedLines& lines);

  Peers& peers_;
  CallLog& log_;
  const ArrivalPoll& poll_;
  const SegmentLayout layout_;
  ByRank<Counts> counts_;
};

}  // namespace capstan
