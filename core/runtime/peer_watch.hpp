#pragma once

#include <cstdint>
#include <string>

#include "core/runtime/failure.hpp"
#include "transports/transport.hpp"

namespace capstan {

/// Looks after the peers while this rank waits: has one given up, died, or left?
class PeerWatch {
 public:
  PeerWatch(Transport& transport, Rank self, int ranks)
      : transport_(transport), self_(self), ranks_(ranks) {}

  /// Throws what a peer has given up with, so that all ranks report the same cause. Reads memory
  /// only.
  void check_aborts() const;

  /// Throws PeerLost when a peer is gone that has not finished `blocks` blocks. One that has may
  /// leave: it owes nothing. Costs a system call per peer.
  void check_departures(std::uint64_t blocks, const std::string& position) const;

 private:
  const Control& control(int peer) const;

  Transport& transport_;
  Rank self_;
  int ranks_;
};

}  // namespace capstan
