// SPDX-License-Identifier: Apache-2.0
#include "algorithms/reduce_scatter/reduce_scatter.hpp"

#include <array>

#include "algorithms/declare.hpp"

namespace capstan {
namespace {

// The selector takes the first of two algorithms that promise the same.
const std::array list{
    Algorithm{"direct",
              Collective::reduce_scatter,
              "each rank gets its block from everybody: one step",
              &blocked<direct_reduce_scatter>,
              all_pairs,
              {.synchronizes = true, .ordered = true, .rank_ordered_sum = true},
              Traffic::inputs},
    with(Symmetry::exclusive_or, Algorithm{"recursive_halving",
                                           Collective::reduce_scatter,
                                           "log2(p) exchanges of halves",
                                           &blocked<recursive_halving_reduce_scatter>,
                                           any_size,
                                           {.synchronizes = true, .bounded_skew = true}}),
    Algorithm{"parallel_trees",
              Collective::reduce_scatter,
              "a tree per block, their messages travel together: log2(p) steps",
              &blocked<parallel_trees_reduce_scatter>,
              any_size,
              {.synchronizes = true, .bounded_skew = true}},
    with(Symmetry::rotation, Algorithm{"ring",
                                       Collective::reduce_scatter,
                                       "partial sums travel once round a ring",
                                       &blocked<ring_reduce_scatter>,
                                       4096,
                                       {.synchronizes = true, .bounded_skew = true}}),
    Algorithm{"two_level",
              Collective::reduce_scatter,
              "sums within hosts, then one of each block between hosts",
              &blocked<two_level_reduce_scatter>,
              all_pairs,
              {.synchronizes = true},
              Traffic::partials,
              Requires::several_hosts},
};
const auto list_with_counts = with_counts(list, Collective::reduce_scatter_v);

}  // namespace

std::span<const Algorithm> reduce_scatter_algorithms() {
  return list;
}
std::span<const Algorithm> reduce_scatter_v_algorithms() {
  return list_with_counts;
}

}  // namespace capstan
