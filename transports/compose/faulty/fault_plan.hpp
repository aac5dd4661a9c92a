#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/quantity.hpp"

namespace capstan {

/// Which faults a FaultyTransport injects. Probabilities are from 0 to 1; calls are calls of
/// progress() by the rank that waits; pushes are counted on each link by the rank that takes them
/// in. There is no clock in it: what happens to a push follows from the seed, the two ranks and the
/// number of the push.
struct FaultPlan {
  std::uint64_t seed = 0;

  /// That a push becomes visible late: by 1 to `delay_calls` calls.
  double delay = 0;
  std::uint64_t delay_calls = 8;
  /// That a link is passed over for one call while others have news.
  double reorder = 0;
  /// That a push of several words becomes visible in two pieces, some calls apart.
  double partial = 0;
  /// That a push is lost half-way, and sent again by the network `resend_calls` calls later.
  double drop = 0;
  std::uint64_t resend_calls = 64;
  /// That a sleep ends at once for no reason; that it is cut short.
  double spurious = 0;
  double early = 0;

  /// Nothing from `rank` arrives for `calls` calls once `after` pushes have.
  struct Stop {
    Rank rank;
    std::uint64_t after, calls;
    bool operator==(const Stop&) const = default;
  };
  /// The connection between two ranks breaks when one of them has taken in `after` pushes of the
  /// other: each then misses the other.
  struct Reset {
    Rank one, other;
    std::uint64_t after;
    bool operator==(const Reset&) const = default;
  };
  /// Every connection of `rank` breaks so.
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
  /// three may come again. Throws InvalidArgument that says what is wrong and what could be said.
  static FaultPlan parse(std::string_view text);
  /// What parse() makes the same plan of; what is as by default is left out, except the seed.
  std::string to_string() const;
};

}  // namespace capstan
