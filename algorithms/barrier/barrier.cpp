// SPDX-License-Identifier: Apache-2.0
#include "algorithms/barrier/barrier.hpp"

#include <array>

#include "algorithms/declare.hpp"

namespace capstan {
namespace {

// The selector takes the first of two algorithms that promise the same.
const std::array list{
    Algorithm{"flat",
              Collective::barrier,
              "everybody tells everybody: one step",
              &plain<flat_barrier>,
              all_pairs,
              {.synchronizes = true, .bounded_skew = true}},
    with(Symmetry::rotation, Algorithm{"dissemination",
                                       Collective::barrier,
                                       "log2(p) rounds, each rank tells one further away",
                                       &plain<dissemination_barrier>,
                                       any_size,
                                       {.synchronizes = true, .bounded_skew = true}}),
    Algorithm{"binomial_tree",
              Collective::barrier,
              "up and down a tree: fewest signals",
              &plain<binomial_tree_barrier>,
              any_size,
              {.synchronizes = true, .bounded_skew = true}},
    Algorithm{"leaders",
              Collective::barrier,
              "one rank of each host tells those of the others",
              &plain<leaders_barrier>,
              4096,
              {.synchronizes = true, .bounded_skew = true},
              Traffic::partials,
              Requires::several_hosts},
};

}  // namespace

std::span<const Algorithm> barrier_algorithms() {
  return list;
}

}  // namespace capstan
