// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "core/engine/control/peers.hpp"

namespace capstan {

/// Polls for data that a peer has yet to write: long enough for a peer that runs at the same time,
/// short enough not to keep the core from a peer that shares it.
class ArrivalPoll {
 public:
  /// `spins`: how often a condition is tested before the poll gives up.
  ArrivalPoll(Peers& peers, int spins) : peers_(peers), spins_(spins) {}

  void set_spins(int spins) { spins_ = spins; }

  /// Whether the condition becomes true before the poll gives up. It depends on memory that the
  /// peer writes. Writes from other hosts become visible through Transport::progress() only.
  template <class Condition>
  bool until(Rank peer, Condition condition) const {
    if (peers_.posted().empty()) return becomes_true(condition);
    constexpr int spins_between_progress = 64, most_remote_spins = 100;
    const bool mapped = peers_.mapped(peer);
    const int spins = mapped ? spins_ : std::min(spins_, most_remote_spins);
    for (int i = 0; i < spins; ++i) {
      if (condition()) return true;
      if (!mapped || i % spins_between_progress == 0)
        peers_.transport().progress();
      else
        relax();
    }
    return false;
  }

  /// Lets the other hyperthread of this core have the pipeline for a moment.
  static void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

 private:
  template <class Condition>
  bool becomes_true(Condition condition) const {
    constexpr int eager = 128;
    for (int i = 0; i < spins_; ++i) {
      if (condition()) return true;
      if (i > eager) relax();
    }
    return false;
  }

  Peers& peers_;
  int spins_;
};

}  // namespace capstan
