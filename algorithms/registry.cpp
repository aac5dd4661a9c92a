#include "algorithms/registry.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <vector>

#include "algorithms/all_reduce.hpp"
#include "core/ir/error.hpp"

namespace capstan {
namespace {

constexpr int any_size = 1 << 20;
constexpr int all_pairs = 256;  // schedules with a step for every peer

#define CAPSTAN_ALL_REDUCE(name, max_ranks, summary)                                               \
  Algorithm {                                                                                      \
    #name, Collective::all_reduce, summary, &name##_all_reduce, &name##_all_reduce_cost, max_ranks \
  }

// Of two that promise the same, the selector takes the one that stands first.
const std::array all_reduce_algorithms{
    CAPSTAN_ALL_REDUCE(flat, all_pairs, "everybody sends everything to everybody: one step"),
    CAPSTAN_ALL_REDUCE(direct, all_pairs, "each rank reduces one block for all: two steps"),
    CAPSTAN_ALL_REDUCE(recursive_doubling, any_size, "log2(p) exchanges of everything"),
    CAPSTAN_ALL_REDUCE(binomial_tree, any_size, "reduce to one rank, then broadcast"),
    CAPSTAN_ALL_REDUCE(double_binary_tree, any_size, "two trees, each for half of the data"),
    CAPSTAN_ALL_REDUCE(rabenseifner, any_size, "recursive halving, then recursive doubling"),
    CAPSTAN_ALL_REDUCE(ring, 4096, "blocks travel twice round a ring"),
};

#undef CAPSTAN_ALL_REDUCE

Schedule local_copy(const Group& group, Elements count) {
  ScheduleBuilder s{group, count, count};
  s.copy(s.output(), s.input());
  return std::move(s).build();
}

}  // namespace

Schedule Algorithm::schedule(const Group& group, Elements count) const {
  if (group.size() > max_ranks)
    throw InvalidArgument(
        fmt::format("{} algorithm '{}' is limited to {} ranks, not {}: choose another",
                    name_of(collective), name, max_ranks, group.size()));
  return group.size() == 1 ? local_copy(group, count) : build(group, count);
}

std::span<const Algorithm> algorithms(Collective) {
  return all_reduce_algorithms;
}

const Algorithm& algorithm_named(Collective collective, std::string_view name) {
  const auto known = algorithms(collective);
  const auto found = std::ranges::find(known, name, &Algorithm::name);
  if (found != known.end()) return *found;

  std::vector<std::string_view> names;
  std::ranges::transform(known, std::back_inserter(names), &Algorithm::name);
  throw InvalidArgument(fmt::format("{} has no algorithm '{}': choose one of {}",
                                    name_of(collective), name, fmt::join(names, ", ")));
}

}  // namespace capstan
