// SPDX-License-Identifier: Apache-2.0
#include "algorithms/scatter/scatter.hpp"

#include <array>

#include "algorithms/declare.hpp"

namespace capstan {
namespace {

// The selector takes the first of two algorithms that promise the same.
const std::array list{
    Algorithm{"direct",
              Collective::scatter,
              "the root sends each rank its block: one step",
              &rooted_blocked<direct_scatter>,
              all_pairs,
              {},
              Traffic::inputs},
    Algorithm{"binomial",
              Collective::scatter,
              "down a binomial tree: log2(p) steps",
              &rooted_blocked<binomial_scatter>,
              any_size,
              {}},
    Algorithm{"leaders",
              Collective::scatter,
              "in one message to one rank of each host, then within hosts",
              &rooted_blocked<leaders_scatter>,
              all_pairs,
              {},
              Traffic::partials,
              Requires::several_hosts},
};
const auto list_with_counts = with_counts(list, Collective::scatter_v);

}  // namespace

std::span<const Algorithm> scatter_algorithms() {
  return list;
}
std::span<const Algorithm> scatter_v_algorithms() {
  return list_with_counts;
}

}  // namespace capstan
