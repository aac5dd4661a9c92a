#pragma once

#include <optional>
#include <vector>

#include "core/ir/schedule.hpp"

namespace capstan {

/// A rank's place in a tree over its group.
struct TreePlace {
  std::optional<Rank> parent;  ///< none at the root
  int slot = 0;                ///< which of its parent's landings this rank fills
  /// Child by landing slot; a slot without a child is skipped.
  std::vector<std::optional<Rank>> children;
};

/// Sums `range` of every rank's input up the tree into the root's output. Every rank passes the
/// same number of slots, one landing is allocated for each.
void reduce_up(ScheduleBuilder& s, const TreePlace& place, Range range, int slots);

/// Hands `range` of the root's output down the tree into every rank's output. Legal only after
/// reduce_up: a child that has sent its sum has entered the call.
void broadcast_down(ScheduleBuilder& s, const TreePlace& place, Range range);

}  // namespace capstan
