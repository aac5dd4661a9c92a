// SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_gather/all_gather.hpp"

#include <array>

#include "algorithms/declare.hpp"

namespace capstan {
namespace {

// The selector takes the first of two algorithms that promise the same.
const std::array list{
    Algorithm{"direct",
              Collective::all_gather,
              "everybody sends its block to everybody: one step",
              &blocked<direct_all_gather>,
              all_pairs,
              {.synchronizes = true},
              Traffic::inputs},
    Algorithm{"rendezvous",
              Collective::all_gather,
              "when all are there, everybody writes its block to everybody",
              &blocked<rendezvous_all_gather>,
              all_pairs,
              {.synchronizes = true, .bounded_skew = true},
              Traffic::results},
    with(Symmetry::exclusive_or, Algorithm{"recursive_doubling",
                                           Collective::all_gather,
                                           "log2(p) exchanges of all that is there",
                                           &blocked<recursive_doubling_all_gather>,
                                           any_size,
                                           {.synchronizes = true, .bounded_skew = true}}),
    Algorithm{"bruck",
              Collective::all_gather,
              "log2(p) steps for any number of ranks",
              &blocked<bruck_all_gather>,
              any_size,
              {.synchronizes = true, .bounded_skew = true}},
    with(Symmetry::rotation, Algorithm{"ring",
                                       Collective::all_gather,
                                       "each block travels once round a ring",
                                       &blocked<ring_all_gather>,
                                       4096,
                                       {.synchronizes = true, .bounded_skew = true}}),
    Algorithm{"two_level",
              Collective::all_gather,
              "each block to one rank of each host, then within hosts",
              &blocked<two_level_all_gather>,
              all_pairs,
              {.synchronizes = true},
              Traffic::partials,
              Requires::several_hosts},
};
const auto list_with_counts = with_counts(list, Collective::all_gather_v);

}  // namespace

std::span<const Algorithm> all_gather_algorithms() {
  return list;
}
std::span<const Algorithm> all_gather_v_algorithms() {
  return list_with_counts;
}

}  // namespace capstan
