// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "capstan/by_rank.hpp"
#include "core/engine/control/segment.hpp"
#include "core/schedule/lowering/call.hpp"

namespace capstan {

class Peers;

/// The details of which marks of calls and frames of messages have a digest only: kept in the
/// segment for errors of this rank and its peers.
///
/// Used by one thread at a time.
class Notes {
 public:
  explicit Notes(int ranks) : shown_(ranks) {}

  /// Keeps a note in the place of the oldest one, unless it is there. `key` is not 0.
  void keep(Control& own, std::uint64_t key, std::string_view name,
            std::span<const Elements> counts = {});
  /// Empty for a note that is not there, or is being written.
  static std::optional<CallDetails> find(const Control& control, std::uint64_t key);
  /// Sends a note that is kept to a peer on another host.
  void show(Peers& peers, Rank peer, std::uint64_t key);

 private:
  ByRank<std::uint64_t> shown_;  // the key of the last note that a peer has been sent
  std::size_t next_ = 0;
};

}  // namespace capstan
