// SPDX-License-Identifier: Apache-2.0
#include "algorithms/all_reduce/all_reduce.hpp"

#include <array>

#include "algorithms/declare.hpp"

namespace capstan {
namespace {

#define CAPSTAN_ALL_REDUCE(name, max_ranks, order, sends, summary, ...)             \
  Algorithm {                                                                       \
    #name, Collective::all_reduce, summary, &counted<name##_all_reduce>, max_ranks, \
        {.synchronizes = true,                                                      \
         .bounded_skew = true,                                                      \
         .ordered = order >= in_order,                                              \
         .left_fold = order >= left_fold,                                           \
         .rank_ordered_sum = order == rank_ordered_sum,                             \
         .host_ordered_sum = order == host_ordered_sum},                            \
        sends __VA_OPT__(, ) __VA_ARGS__                                            \
  }

constexpr int host_ordered_sum = -1, any_order = 0, in_order = 1, left_fold = 2,
              rank_ordered_sum = 3;

// The selector takes the first of two algorithms that promise the same.
const std::array list{
    CAPSTAN_ALL_REDUCE(flat, all_pairs, rank_ordered_sum, Traffic::partials,
                       "everybody sends everything to everybody: one step"),
    CAPSTAN_ALL_REDUCE(direct, all_pairs, rank_ordered_sum, Traffic::results,
                       "each rank reduces one block for all: two steps"),
    with(Symmetry::exclusive_or,
         CAPSTAN_ALL_REDUCE(recursive_doubling, any_size, in_order, Traffic::partials,
                            "log2(p) exchanges of everything")),
    CAPSTAN_ALL_REDUCE(binomial_tree, any_size, in_order, Traffic::partials,
                       "reduce to one rank, then broadcast"),
    CAPSTAN_ALL_REDUCE(double_binary_tree, any_size, any_order, Traffic::partials,
                       "two trees, each for half of the data"),
    with(Symmetry::exclusive_or,
         CAPSTAN_ALL_REDUCE(rabenseifner, any_size, any_order, Traffic::partials,
                            "recursive halving, then recursive doubling")),
    with(Symmetry::rotation, CAPSTAN_ALL_REDUCE(ring, any_size, any_order, Traffic::partials,
                                                "blocks travel twice round a ring")),
    CAPSTAN_ALL_REDUCE(two_level, 4096, host_ordered_sum, Traffic::partials,
                       "within hosts, then between hosts by all their ranks at once",
                       Requires::uniform_hosts),
    CAPSTAN_ALL_REDUCE(leaders, 4096, host_ordered_sum, Traffic::partials,
                       "to one rank of each host, which exchange sums", Requires::several_hosts),
    CAPSTAN_ALL_REDUCE(ordered_two_level, all_pairs, left_fold, Traffic::partials,
                       "within hosts, then from host to host and back by all their ranks at once",
                       Requires::uniform_hosts),
    CAPSTAN_ALL_REDUCE(ordered_leaders, all_pairs, rank_ordered_sum, Traffic::partials,
                       "to one rank of each host, which exchange what all ranks gave",
                       Requires::several_hosts),
    for_one_reduction(
        CAPSTAN_ALL_REDUCE(ordered_direct, all_pairs, rank_ordered_sum, Traffic::partials,
                           "each rank reduces one block, which crosses to each other host once",
                           Requires::several_hosts)),
};

#undef CAPSTAN_ALL_REDUCE

}  // namespace

std::span<const Algorithm> all_reduce_algorithms() {
  return list;
}

}  // namespace capstan
