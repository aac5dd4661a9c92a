// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "capstan/by_rank.hpp"
#include "core/engine/control/process.hpp"
#include "core/engine/control/wait.hpp"
#include "transports/transport.hpp"

namespace capstan {

/// Tells all ranks of the world what this rank waits for, while it waits for long, and keeps what
/// they tell. One serves all communicators of a rank: a rank that waits in one of them may keep
/// others waiting in another.
///
/// Used by one thread at a time.
class WaitBoard {
 public:
  using Clock = std::chrono::steady_clock;

  /// `world` is the transport of the world, `processes` holds an entry for each of its ranks.
  /// `timeout`: how long ranks wait for each other, which says how often they tell of themselves.
  WaitBoard(Transport& world, Rank self, ByRank<Process> processes,
            std::chrono::milliseconds timeout);

  Rank self() const { return self_; }
  const ByRank<Process>& processes() const { return processes_; }
  Transport& world() { return world_; }

  /// Publishes what this rank waits for; called again and again while it does.
  void tell(const Wait& wait, Clock::time_point now);
  /// This rank waits no more. Costs a comparison where it has published nothing.
  void withdraw() {
    if (told_.kind != Wait::Kind::none && !told_.gave_up) publish_now({});
  }
  /// This rank has given up waiting for the culprits, and continues. `lost`: they are gone.
  void give_up(std::vector<Rank> culprits, bool lost);
  /// This rank begins something else after it has given up.
  void forget_failure() {
    if (told_.gave_up) publish_now({});
  }
  const Wait& told() const { return told_; }

  /// Takes in what others have published.
  void look(Clock::time_point now);

  /// The state that another rank has published about itself, and the time of its last change.
  struct Seen {
    Wait wait{};
    std::uint64_t beat = 0, calls = 0;
    Clock::time_point moved{};  ///< when its beat or its calls were last seen to change
  };
  const Seen& seen(Rank world_rank) const { return seen_[world_rank]; }
  /// The time without any sign of life after which a rank that waits no longer runs.
  std::chrono::milliseconds quiet_limit() const { return quiet_limit_; }
  /// How often a rank tells of itself while it waits.
  std::chrono::milliseconds beat_interval() const { return beat_interval_; }

 private:
  const Control& control(Rank peer) const { return control_of(world_.link(peer).segment); }
  void publish_now(const Wait& wait);
  void send_to_hosts();

  Transport& world_;
  const Rank self_;
  const ByRank<Process> processes_;
  const std::chrono::milliseconds beat_interval_, quiet_limit_;
  std::vector<Rank> others_, posted_;

  Wait told_{};
  std::uint64_t beat_ = 0;
  bool hosts_know_ = false;  // other hosts have been sent what is now outdated
  Clock::time_point told_hosts_{};
  ByRank<Seen> seen_;
};

}  // namespace capstan
