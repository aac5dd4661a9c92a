// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "capstan/communicator.hpp"

namespace capstan {

/// After calls that were right, or before any, the system refuses `call`, one of optional_calls(),
/// to rank 0, as after setuid or in a sandbox that is entered late; more calls of all kinds follow.
/// Status 0: all results were right. Throws what the calls throw.
int lose_right(Communicator& world, const std::string& call, bool before_the_first);

}  // namespace capstan
