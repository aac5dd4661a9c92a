// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/tools/launcher/host_options.hpp"
#include "perf/compare/subject.hpp"
#include "perf/measure/measure.hpp"
#include "perf/report/origin.hpp"

namespace capstan::perf {

/// The options of `capstan perf --against`.
struct CompareOptions {
  std::vector<std::string> peers;
  std::vector<Subject> subjects;
  std::vector<int> ranks;
  launcher::HostOptions where;  ///< each number of ranks takes the first places of these hosts
  std::vector<Bytes> sizes;
  std::string json, chart;  ///< files; empty: none
  report::Facts origin;     ///< of the chart and the JSON document
  MeasureOptions measure{};
};

/// Measures all cells and prints the table. Returns the exit status: 1 if any of Capstan's results
/// was wrong. Throws InvalidArgument for a peer that is unknown or was not built.
int compare(const CompareOptions& options);

}  // namespace capstan::perf
