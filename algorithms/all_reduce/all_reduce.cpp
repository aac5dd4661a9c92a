#include "algorithms/all_reduce/all_reduce.hpp"

#include <array>

#include "algorithms/declare.hpp"

namespace capstan {
namespace {

#define CAPSTAN_ALL_REDUCE(name, max_ranks, order, sends, summary, ...)                           \
  Algorithm {                                                                                     \
    #name, Collective::all_reduce, summary, &counted<name##_all_reduce>, &name##_all_reduce_cost, \
        max_ranks,                                                                                \
        {.synchronizes = true,                                                                    \
         .paced = true,                                                                           \
         .ordered = order >= in_order,                                                            \
         .one_sum = order == one_sum},                                                            \
        sends __VA_OPT__(, ) __VA_ARGS__                                                          \
  }

constexpr int any_order = 0, in_order = 1, one_sum = 2;

// Of two that promise the same, the selector takes the one that stands first.
const std::array list{
    CAPSTAN_ALL_REDUCE(flat, all_pairs, one_sum, Sends::sums,
                       "everybody sends everything to everybody: one step"),
    CAPSTAN_ALL_REDUCE(direct, all_pairs, one_sum, Sends::results,
                       "each rank reduces one block for all: two steps"),
    CAPSTAN_ALL_REDUCE(recursive_doubling, any_size, in_order, Sends::sums,
                       "log2(p) exchanges of everything"),
    CAPSTAN_ALL_REDUCE(binomial_tree, any_size, in_order, Sends::sums,
                       "reduce to one rank, then broadcast"),
    CAPSTAN_ALL_REDUCE(double_binary_tree, any_size, any_order, Sends::sums,
                       "two trees, each for half of the data"),
    CAPSTAN_ALL_REDUCE(rabenseifner, any_size, any_order, Sends::sums,
                       "recursive halving, then recursive doubling"),
    CAPSTAN_ALL_REDUCE(ring, 4096, any_order, Sends::sums, "blocks travel twice round a ring"),
    CAPSTAN_ALL_REDUCE(two_level, 4096, any_order, Sends::sums,
                       "within hosts, then between hosts by all their ranks at once",
                       Meant::even_hosts),
    CAPSTAN_ALL_REDUCE(leaders, 4096, any_order, Sends::sums,
                       "to one rank of each host, which exchange sums", Meant::several_hosts),
};

#undef CAPSTAN_ALL_REDUCE

}  // namespace

std::span<const Algorithm> all_reduce_algorithms() {
  return list;
}

}  // namespace capstan
