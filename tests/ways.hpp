#pragma once

#include <string>
#include <vector>

#include "algorithms/registry.hpp"

namespace capstan {

/// The ways in which an algorithm may run, as rules name them: as the selector likes, staged, and
/// reading peers' buffers where it can.
inline std::vector<std::string> ways_of(const Algorithm& algorithm) {
  const std::string name{algorithm.name};
  std::vector<std::string> ways{name};
  if (algorithm.sends != Sends::sums) ways.insert(ways.end(), {name + "/flags", name + "/inputs"});
  if (algorithm.sends == Sends::outputs) ways.push_back(name + "/buffers");
  return ways;
}

}  // namespace capstan
