#pragma once

#include <span>
#include <string_view>

#include "core/ir/schedule.hpp"
#include "core/ir/types.hpp"

namespace capstan {

/// What one call of an algorithm costs one rank (the busiest one), for the selector and for
/// `explain`. Bytes are counted in elements, so that a cost does not depend on the type.
struct Cost {
  double steps = 0;    ///< messages that follow one another: each pays the link's latency
  double sent = 0;     ///< elements that the busiest rank sends
  double reduced = 0;  ///< elements that the busiest rank combines (sources read by reductions)
};

/// One entry: a named, pure function from (group, count) to a rank's schedule.
struct Algorithm {
  std::string_view name;
  Collective collective;
  std::string_view summary;  ///< one line for `--help` and `explain`
  Schedule (*build)(const Group&, Elements count);
  Cost (*cost)(int ranks, Elements count);
  int max_ranks;  ///< above it the schedule would be unreasonably long
};

/// All algorithms of a collective, in order of declaration.
std::span<const Algorithm> algorithms(Collective collective);

/// The algorithm named `name`; throws InvalidArgument that lists the known names.
const Algorithm& algorithm_named(Collective collective, std::string_view name);

}  // namespace capstan
