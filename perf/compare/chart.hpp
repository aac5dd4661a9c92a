#pragma once

#include <string>
#include <vector>

#include "perf/compare/summary.hpp"

namespace capstan::perf {

/// A self-contained HTML page: a heat map of the ratios, and for each collective and number of
/// ranks a log-log diagram of time over size, with one line per peer and one for the bound.
std::string chart_page(const std::vector<CellResult>& cells, const Summary& summary,
                       const std::vector<std::string>& peers);

}  // namespace capstan::perf
