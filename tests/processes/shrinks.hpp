// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/communicator.hpp"

namespace capstan {

/// Ranks kill themselves, two at a time of six, at moments that follow from the seed: one within
/// calls, and another while the others agree on who is left and form what continues. Each rank that
/// is left prints "four left" and "two left" when these have made a right call.
int shrink_under_fire(Communicator world, unsigned seed);

}  // namespace capstan
