// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "perf/compare/summary.hpp"
#include "perf/report/origin.hpp"

namespace capstan::perf {

/// The comparison as an HTML page: a heat map of the ratios, and for each collective and number of
/// ranks time and bus bandwidth over size, with a line for each configuration of each peer.
std::string chart_page(const std::vector<CellResult>& cells, const Summary& summary,
                       const report::Facts& facts);

}  // namespace capstan::perf
