// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/communicator.hpp"

namespace capstan {

/// Runs an algorithm of the program whose schedules differ on rank 1 for more than 100 elements.
/// Those of each rank are right by themselves.
int run_own_schedules();

}  // namespace capstan
