#pragma once

#include <string>
#include <vector>

#include "core/launcher/host_options.hpp"
#include "perf/measure/measure.hpp"

namespace capstan::perf {

/// What `capstan perf --against` compares.
struct CompareOptions {
  std::vector<std::string> peers;
  std::vector<Collective> collectives;
  std::vector<int> ranks;
  cli::HostOptions where;  ///< with hosts, each number of ranks takes their first places
  std::vector<Bytes> sizes;
  std::string json, chart;  ///< files; empty: none
  MeasureOptions measure{};
};

/// Measures all cells and prints the table. Returns 1 if Capstan's results were wrong.
int compare(const CompareOptions& options);

}  // namespace capstan::perf
