// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/quantity.hpp"

namespace capstan {

/// The faults that a FaultyTransport injects. Probabilities are from 0 to 1. Calls are calls of
/// progress() by the receiving rank, which also counts the pushes of each link. No clock is
/// involved: the faults of a push follow from the seed, the two ranks and the number of the push.
struct FaultPlan {
  std::uint64_t seed = 0;

  /// Probability that a push becomes visible 1 to `delay_calls` calls late.
  double delay = 0;
  std::uint64_t delay_calls = 8;
  /// Probability that one call skips a link while other links have pushes.
  double reorder = 0;
  /// Probability that a push of several words becomes visible in two pieces, some calls apart.
  double partial = 0;
  /// Probability that a push is lost half-way and the network sends it again `resend_calls` calls
  /// later.
  double drop = 0;
  std::uint64_t resend_calls = 64;
  /// Probabilities that a sleep ends at once for no reason, and that it is cut short.
  double spurious = 0;
  double early = 0;

  /// Nothing from `rank` arrives for `calls` calls once `after` pushes have.
  struct Stop {
    Rank rank;
    std::uint64_t after, calls;
    bool operator==(const Stop&) const = default;
  };
  /// The connection between two ranks breaks when one of them has received `after` pushes of the
  /// other. Each then sees the other as departed.
  struct Reset {
    Rank one, other;
    std::uint64_t after;
    bool operator==(const Reset&) const = default;
  };
  /// Every connection of `rank` breaks in this manner.
  struct Death {
    Rank rank;
    std::uint64_t after;
    bool operator==(const Death&) const = default;
  };
  std::vector<Stop> stops{};
  std::vector<Reset> resets{};
  std::vector<Death> deaths{};

  bool operator==(const FaultPlan&) const = default;

  /// Reads "seed=42,delay=0.1,delay_calls=20,stop=1@100:5000,reset=0-2@7,death=3@50"; the last
  /// three may be repeated. Throws InvalidArgument that says what is wrong and what is known.
  static FaultPlan parse(std::string_view text);
  /// The text that parse() reads as this plan. Omits default values, except the seed.
  std::string to_string() const;
};

}  // namespace capstan
