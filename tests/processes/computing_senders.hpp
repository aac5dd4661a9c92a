// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "capstan/communicator.hpp"

namespace capstan {

/// Rank 0 sends long messages to rank 1 and computes meanwhile, for random times or until rank 1
/// has them; then it changes its buffers. `file` is mapped by both: what rank 1 has received is
/// told there, past Capstan. Status 0: all arrived, and were right.
int send_and_compute(Communicator& world, const std::string& file);

}  // namespace capstan
