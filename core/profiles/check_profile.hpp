// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/profiles/profile.hpp"

namespace capstan {

/// The flaws and oddities of a profile, a line each: another machine or version, sizes that stand
/// twice, gaps of more than 64 times between sizes, entries that no call reaches, cells that
/// decide nothing, ways that cannot run there; and contradictions: an all_reduce slower than
/// reduce_scatter and all_gather together, times that fall by more than half where sizes grow,
/// cliffs.
std::vector<std::string> check_profile(const Profile& profile, const Fingerprint& machine);

}  // namespace capstan
