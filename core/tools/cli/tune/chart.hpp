// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/profiles/profile.hpp"
#include "perf/report/origin.hpp"

namespace capstan::cli {

/// A profile as an HTML page: for each collective and number of ranks what every candidate took
/// over size, and all cells at a glance.
std::string chart_page(const Profile& profile, const report::Facts& facts);

}  // namespace capstan::cli
