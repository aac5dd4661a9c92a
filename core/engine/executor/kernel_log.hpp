// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <vector>

#include "core/engine/control/call_log.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/executor/executor.hpp"

namespace capstan {

/// The calls that kernels of this rank's device run, as the host publishes them for its peers. They
/// have a communicator of their own, which makes no other calls: each counts as one block.
///
/// Thread-safe.
class KernelLog {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit KernelLog(Peers& peers) : peers_(peers), log_(peers) {}

  /// A kernel has begun a call. The one before it has ended.
  void begin(const CallMark& mark);
  /// The kernel has ended. Throws Mismatch where peers have made other calls so far.
  void end();
  /// Graphs may launch kernels at any time, of which the host sees nothing: peers that are gone are
  /// missed from now on, also between calls.
  void expect_replays();

  /// Since when a call waits; none where nothing runs.
  std::optional<Time> running_since() const;
  /// Whether peers are missed now.
  bool needs_peers() const;
  Executor::Report report() const;
  /// See Executor::compare_calls().
  void compare_calls();

 private:
  std::vector<Rank> awaited() const;

  mutable std::mutex mutex_;
  Peers& peers_;
  CallLog log_;
  CallMark mark_{};
  std::optional<Time> since_;
  bool expects_replays_ = false;
};

}  // namespace capstan
