// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "capstan/by_rank.hpp"
#include "capstan/quantity.hpp"

namespace capstan {

class Peers;

/// Flow control of eager messages. A rank stores unexpected messages up to a limit, of which each
/// peer has an equal share. A sender takes credit for every message that it sends eagerly. The
/// receiver gives it back when a receive has got the message, by a count in its segment. What a
/// rank sends to itself is stored apart, up to the limit. Nothing here waits. Used by one thread at
/// a time.
class Credits {
 public:
  /// The counts start at `offset` in every rank's segment.
  Credits(Peers& peers, Bytes offset, Bytes limit);

  static Bytes area(int ranks);

  /// As a sender: takes credit for a message to a peer; false, and nothing is taken, if there is
  /// not enough.
  bool take(Rank peer, Bytes bytes);

  /// As a receiver: whether so many bytes more of a rank may be stored.
  bool has_room(Rank source, Bytes bytes) const;
  void store(Rank source, Bytes bytes) { stored_[source] += bytes.value(); }
  void drop(Rank source, Bytes bytes) { stored_[source] -= bytes.value(); }
  /// Gives credit for a message back to its sender.
  void give_back(Rank source, Bytes bytes);

 private:
  struct Line;
  Line& own(Rank peer) const;
  const Line& of(Rank peer) const;

  Peers& peers_;
  const Bytes offset_;
  const std::uint64_t limit_;
  const std::uint64_t share_;            // of each peer
  ByRank<std::uint64_t> taken_, seen_;   // in all, and how much of it is known to be back
  ByRank<std::uint64_t> given_, shown_;  // back, in all, and how much of it peers know
  ByRank<std::uint64_t> stored_;
};

}  // namespace capstan
