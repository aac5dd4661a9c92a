// SPDX-License-Identifier: Apache-2.0
#include "algorithms/reduce/reduce.hpp"

#include <array>

#include "algorithms/declare.hpp"

namespace capstan {
namespace {

// The selector takes the first of two algorithms that promise the same.
const std::array list{
    Algorithm{"flat",
              Collective::reduce,
              "everybody sends everything to the root: one step",
              &rooted<flat_reduce>,
              all_pairs,
              {.ordered = true, .rank_ordered_sum = true},
              Traffic::inputs},
    Algorithm{"direct",
              Collective::reduce,
              "reduce-scatter and gather, one step each",
              &rooted<direct_reduce>,
              all_pairs,
              {.synchronizes = true, .ordered = true, .rank_ordered_sum = true},
              Traffic::results},
    Algorithm{"binomial",
              Collective::reduce,
              "up a binomial tree: log2(p) steps",
              &rooted<binomial_reduce>,
              any_size,
              {}},
    Algorithm{"rabenseifner",
              Collective::reduce,
              "recursive halving, then the blocks are gathered",
              &rooted<rabenseifner_reduce>,
              any_size,
              {}},
    Algorithm{"chain",
              Collective::reduce,
              "from rank to rank; long messages as a pipeline of blocks",
              &rooted<chain_reduce>,
              any_size,
              {}},
    Algorithm{"two_level",
              Collective::reduce,
              "slices summed within hosts, then between hosts by all their ranks",
              &rooted<two_level_reduce>,
              all_pairs,
              {},
              Traffic::partials,
              Requires::several_hosts},
    Algorithm{"leaders",
              Collective::reduce,
              "to one rank of each host, which sends the sum to the root",
              &rooted<leaders_reduce>,
              all_pairs,
              {},
              Traffic::partials,
              Requires::several_hosts},
};

}  // namespace

std::span<const Algorithm> reduce_algorithms() {
  return list;
}

}  // namespace capstan
