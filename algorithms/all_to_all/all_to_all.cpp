// SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_to_all/all_to_all.hpp"

#include <array>

#include "algorithms/declare.hpp"

namespace capstan {
namespace {

// The selector takes the first of two algorithms that promise the same.
const std::array list{
    Algorithm{"direct",
              Collective::all_to_all,
              "everybody sends everybody its block: one step",
              &exchanged<direct_all_to_all>,
              all_pairs,
              {.synchronizes = true},
              Traffic::inputs},
    with(Symmetry::rotation, Algorithm{"pairwise",
                                       Collective::all_to_all,
                                       "p-1 steps, each rank talks to one at a time",
                                       &exchanged<pairwise_all_to_all>,
                                       4096,
                                       {.synchronizes = true, .bounded_skew = true},
                                       Traffic::inputs}),
    with(Symmetry::rotation, Algorithm{"bruck",
                                       Collective::all_to_all,
                                       "log2(p) steps, blocks travel several hops",
                                       &exchanged<bruck_all_to_all>,
                                       4096,
                                       {.synchronizes = true, .bounded_skew = true}}),
    Algorithm{"two_level",
              Collective::all_to_all,
              "collected within hosts: one message between ranks of two hosts",
              &exchanged<two_level_all_to_all>,
              all_pairs,
              {.synchronizes = true},
              Traffic::partials,
              Requires::several_hosts},
};

const std::array list_with_counts{
    Algorithm{"direct",
              Collective::all_to_all_v,
              "everybody sends everybody its block: one step",
              &exchanged<direct_all_to_all>,
              all_pairs,
              {.synchronizes = true},
              Traffic::inputs},
    Algorithm{"pairwise",
              Collective::all_to_all_v,
              "p-1 steps, each rank talks to one at a time",
              &exchanged<pairwise_all_to_all>,
              4096,
              {.synchronizes = true, .bounded_skew = true},
              Traffic::inputs},
    Algorithm{"two_level",
              Collective::all_to_all_v,
              "collected within hosts: one message between ranks of two hosts",
              &exchanged<two_level_all_to_all>,
              all_pairs,
              {.synchronizes = true},
              Traffic::partials,
              Requires::several_hosts},
};

}  // namespace

std::span<const Algorithm> all_to_all_algorithms() {
  return list;
}
std::span<const Algorithm> all_to_all_v_algorithms() {
  return list_with_counts;
}

}  // namespace capstan
