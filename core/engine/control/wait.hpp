// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/control/segment.hpp"
#include "core/schedule/lowering/call.hpp"

namespace capstan {

/// The wait of a rank, as it publishes it to the others.
struct Wait {
  enum class Kind : std::uint8_t {
    none,        ///< it does not wait, or not for long
    collective,  ///< for peers in a step of a collective call
    form,        ///< for the members of a group that is being formed
    receive,     ///< for a message
    send,        ///< for a peer to take a message
    kernel,      ///< for peers in the kernel of a collective call
    survivors    ///< for ranks that are left to call shrink() or grow()
  };

  Kind kind = Kind::none;
  bool any = false;           ///< any of the peers would do, as for a message from any source
  bool gave_up = false;       ///< it has stopped waiting in vain; `peers` are the culprits
  bool lost = false;          ///< it gave up as these are gone
  std::vector<Rank> peers{};  ///< ranks of the world, in rising order; most_peers at most
  int peer_count = 0;         ///< all of them
  std::chrono::milliseconds waited{};
  CallMark call{};  ///< of a collective, also in a kernel
  /// The number of the call in its communicator; a message's tag, or any_tag; shrinks, or grows.
  std::uint64_t number = 0;
  std::uint32_t step = 0, steps = 0;  ///< of a collective: step i of n, from 1
  std::uint32_t group_size = 0;       ///< ranks of its communicator; 0: that is the world

  static constexpr std::size_t most_peers = 12;
  static constexpr std::uint64_t any_tag = std::uint64_t{1} << 40;
  static constexpr std::uint64_t shrinks = 1, grows = 2;

  bool operator==(const Wait&) const = default;
};

/// Adds what the same rank waits for at the same time. Of several waits the most telling one is
/// named, with the peers of all.
void add(Wait& to, const Wait& other);

/// "all_reduce(1000 x f32, sum) by ring #640, step 3 of 5", "a message with tag 7".
std::string to_string(const Wait& wait);

/// "1.2 s".
std::string seconds(std::chrono::milliseconds time);

/// Publishes a wait. `beat` changes from one publication to the next, so that others see that this
/// rank still runs.
void publish(WaitRecord& record, const Wait& wait, std::uint64_t beat);

/// A wait that a rank has published, if all words of the record are of one publication. A record
/// without any is that of a rank that has never waited.
struct PublishedWait {
  Wait wait{};
  std::uint64_t beat = 0;
};
std::optional<PublishedWait> read(const WaitRecord& record);

}  // namespace capstan
