#pragma once

#include <vector>

#include "algorithms/registry.hpp"

namespace capstan {

/// The schedules of all ranks of the world.
inline std::vector<Schedule> schedules_of(const Algorithm& algorithm, int ranks, Elements count) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < ranks; ++rank)
    schedules.push_back(algorithm.schedule(Group::world(ranks, Rank{rank}), count));
  return schedules;
}

}  // namespace capstan
