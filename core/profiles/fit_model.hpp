// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/hosts.hpp"
#include "core/profiles/profile.hpp"
#include "core/schedule/selection/model_scale.hpp"

namespace capstan {

/// Fits the constants of `model`, not scaled so far, to the times of all ways of the cells. Found
/// by coordinate descent: the scale with the least sum of two means, that of |ln(predicted /
/// measured)| over the ways, and that of ln(chosen / fastest) over the cells, where the way with
/// the least predicted time is chosen. A factor that the times say nothing about stays 1. Takes
/// seconds at most: of very many ways, or of long programs, every n-th counts.
ModelScale fit_model(const std::vector<MeasuredCell>& cells, const Hosts& hosts,
                     const LinkModel& model);

}  // namespace capstan
