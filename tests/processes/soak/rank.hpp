// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/processes/soak/scenario.hpp"

namespace capstan::soak {

// Messages of a rank, a line each.
inline constexpr std::string_view says_now = "now";      ///< the moment has come
inline constexpr std::string_view says_right = "right";  ///< all calls were right, to the end
inline constexpr std::string_view says_error =
    "error ";  ///< kind, the rank lost or -1, culprits, text
inline constexpr std::string_view says_left = "left";      ///< it has destroyed its communicator
inline constexpr std::string_view says_wrong = "wrong: ";  ///< what must never be

/// One rank of a scenario: calls collectives until an error comes, or until rank 0 gets SIGUSR1.
/// Checks every result, that errors stay, and that nothing is left behind in the process.
int run_rank(const Scenario& scenario);

}  // namespace capstan::soak
