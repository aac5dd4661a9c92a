// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/control/failure.hpp"
#include "core/engine/control/peers.hpp"

namespace capstan {

/// Finds out, while this rank waits, whether a peer has given up, died or left.
class Watchdog {
 public:
  explicit Watchdog(Peers& peers) : peers_(peers) {}

  /// Throws the failure of a peer that has given up, so that all ranks report the same cause. Reads
  /// memory only.
  void check_aborts() const;
  /// The failure of one of these peers that has given up, if there is one.
  std::optional<Failure> failure_among(const std::vector<Rank>& peers) const;

  /// The peers that are gone and have not finished `blocks` blocks, with the reasons. A peer that
  /// has finished them may leave: no rank waits for it. Throws the failure of a peer because of
  /// which they have gone. Costs a system call per peer.
  std::vector<std::pair<Rank, std::string>> lost(std::uint64_t blocks) const;

  /// Why a peer can no longer answer, if it cannot.
  std::optional<std::string> departed(Rank peer) const;

 private:
  Peers& peers_;
};

}  // namespace capstan
