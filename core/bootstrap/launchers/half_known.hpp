// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "core/bootstrap/launchers/launch.hpp"

namespace capstan {

/// For a process that no launcher seems to have started, or that is the only rank of `launches`.
/// Throws InvalidArgument that names the variables if some of another launcher show that it is one
/// of several, or, without launches, a rank whose job's size is unknown: it would otherwise be a
/// world of its own, and every result its own value.
void refuse_half_known(const Environment& environment, std::span<const Launch> launches = {});

}  // namespace capstan
