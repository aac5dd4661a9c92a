// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/types.hpp"
#include "core/schedule/lowering/plan.hpp"

namespace capstan {

/// Tells at the level info of CAPSTAN_LOG how a kind of call runs, and why; of a candidate that is
/// timed, at the level debug. All ranks choose alike: the first one speaks.
void log_choice(const Call& call, const Choice& choice, Rank self, bool is_candidate = false);

}  // namespace capstan
