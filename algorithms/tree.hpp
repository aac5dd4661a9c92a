// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "capstan/schedule.hpp"

namespace capstan {

/// A rank's place in a tree over its group.
struct TreePlace {
  std::optional<Rank> parent;  ///< none at the root
  int slot = 0;                ///< which of its parent's landings this rank fills
  /// Child by landing slot; a slot without a child is skipped.
  std::vector<std::optional<Rank>> children;
};

/// Binomial tree in which position root + i hangs below root + (i with its lowest set bit cleared);
/// child slot k is 2^k further on and heads a subtree of up to 2^k positions.
TreePlace binomial_place(const Group& group, int root);
/// Landing slots that a place of that tree may have.
int binomial_slots(int ranks);

/// A chain from the root to its right, once round the group.
TreePlace chain_place(const Group& group, int root);

/// Sums `range` of every rank's input up the tree into the root's output; inner ranks keep their
/// partial sums in `sum`, which is as long as the range. Every rank passes the same number of
/// slots, one landing is allocated for each.
void reduce_up(ScheduleBuilder& s, const TreePlace& place, Range range, int slots, Span sum);

/// Hands `range` of the root's output down the tree into every rank's output. Legal only after
/// reduce_up: a child that has sent its sum has entered the call.
void broadcast_down(ScheduleBuilder& s, const TreePlace& place, Range range);

/// Hands the root's input down the tree into every rank's output, by way of scratch, as nobody
/// knows whether a child has entered the call.
void broadcast_from_input(ScheduleBuilder& s, const TreePlace& place);

}  // namespace capstan
