// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "capstan/communicator.hpp"

namespace capstan {

/// Members of a world make calls, shrink when one dies, and grow by new ranks that join by `name`
/// until they are as many as before. Up to four of the `processes` are hit at moments that follow
/// from the seed, in calls, while others shrink, or grow, or while they join: killed, or stopped
/// for a while. Each that is left in the end prints "done" when all that are left have made a right
/// call; 2 is the exit status of one that met an error that it should not have.
struct Fire {
  unsigned seed = 0;
  std::string name{};
  int processes = 0;
};
int grow_under_fire(Communicator world, const Fire& fire);
/// The process of this number, from the number of members on, joins and takes part.
int join_under_fire(const Fire& fire, int number);

}  // namespace capstan
