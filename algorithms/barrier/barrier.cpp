#include "algorithms/barrier/barrier.hpp"

#include <array>

#include "algorithms/declare.hpp"

namespace capstan {
namespace {

#define CAPSTAN_BARRIER(name, max_ranks, summary)                                        \
  Algorithm {                                                                            \
#name, Collective::barrier, summary, &plain < name##_barrier>, &name##_barrier_cost, \
        max_ranks, {                                                                     \
      .synchronizes = true                                                               \
    }                                                                                    \
  }

const std::array list{
    CAPSTAN_BARRIER(dissemination, any_size, "log2(p) rounds, each rank tells one further away"),
};

#undef CAPSTAN_BARRIER

}  // namespace

std::span<const Algorithm> barrier_algorithms() {
  return list;
}

}  // namespace capstan
