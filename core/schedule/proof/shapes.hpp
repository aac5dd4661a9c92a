// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "capstan/collective.hpp"

// The sizes at which algorithms are proven: a schedule depends on nothing but these.

namespace capstan {

/// A length per rank (or per pair of ranks): none, equal lengths, or different ones up to
/// `largest`, some of them 0.
std::vector<Elements> unlike_counts(Collective collective, int ranks, int largest);

/// Fewer elements than ranks, as many, not divisible, and none. With counts: none, different ones,
/// and all elements at one rank.
std::vector<Shape> awkward_sizes(Collective collective, int ranks);

/// All roots up to 8 ranks, else the first rank, one in the middle and the last.
std::vector<int> roots_of(Collective collective, int ranks);

/// The awkward sizes with every root.
std::vector<Shape> awkward_shapes(Collective collective, int ranks);

}  // namespace capstan
