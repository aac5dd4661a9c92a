#pragma once

#include <cstdint>
#include <string>

#include "core/control/failure.hpp"
#include "core/control/peers.hpp"

namespace capstan {

/// Looks after the peers while this rank waits: has one given up, died, or left?
class PeerWatch {
 public:
  explicit PeerWatch(Peers& peers) : peers_(peers) {}

  /// Throws what a peer has given up with, so that all ranks report the same cause. Reads memory
  /// only.
  void check_aborts() const;

  /// Throws PeerLost when a peer is gone that has not finished `blocks` blocks. One that has may
  /// leave: it owes nothing. Costs a system call per peer.
  void check_departures(std::uint64_t blocks, const std::string& position) const;

 private:
  Peers& peers_;
};

}  // namespace capstan
