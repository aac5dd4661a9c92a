// SPDX-License-Identifier: Apache-2.0
#include "algorithms/gather/gather.hpp"

#include <array>

#include "algorithms/declare.hpp"

namespace capstan {
namespace {

// The selector takes the first of two algorithms that promise the same.
const std::array list{
    Algorithm{"direct",
              Collective::gather,
              "everybody sends its block to the root: one step",
              &rooted_blocked<direct_gather>,
              all_pairs,
              {},
              Traffic::inputs},
    Algorithm{"binomial",
              Collective::gather,
              "up a binomial tree: log2(p) steps",
              &rooted_blocked<binomial_gather>,
              any_size,
              {}},
    Algorithm{"leaders",
              Collective::gather,
              "to one rank of each host, which sends them on in one message",
              &rooted_blocked<leaders_gather>,
              all_pairs,
              {},
              Traffic::partials,
              Requires::several_hosts},
};
const auto list_with_counts = with_counts(list, Collective::gather_v);

}  // namespace

std::span<const Algorithm> gather_algorithms() {
  return list;
}
std::span<const Algorithm> gather_v_algorithms() {
  return list_with_counts;
}

}  // namespace capstan
