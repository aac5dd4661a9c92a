#include "algorithms/broadcast/broadcast.hpp"

#include <array>

#include "algorithms/declare.hpp"

namespace capstan {
namespace {

#define CAPSTAN_BROADCAST(name, max_ranks, summary)                                             \
  Algorithm {                                                                                   \
#name, Collective::broadcast, summary, &rooted < name##_broadcast>, &name##_broadcast_cost, \
        max_ranks                                                                               \
  }

const std::array list{
    CAPSTAN_BROADCAST(flat, all_pairs, "the root sends everything to everybody: one step"),
};

#undef CAPSTAN_BROADCAST

}  // namespace

std::span<const Algorithm> broadcast_algorithms() {
  return list;
}

}  // namespace capstan
