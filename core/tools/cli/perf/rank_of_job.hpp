// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/bootstrap/launchers/launch.hpp"
#include "core/tools/cli/perf/cells.hpp"
#include "perf/measure/memory_use.hpp"
#include "perf/measure/processes.hpp"
#include "perf/measure/report.hpp"
#include "perf/measure/start_up.hpp"

namespace capstan::cli {

/// `capstan perf` as one rank of a job. Rank 0 prints the results. All ranks make one.
class RankOfJob {
 public:
  /// Throws InvalidArgument where the options make no sense for so many ranks. Everything that it
  /// gets outlives it.
  RankOfJob(const PerfOptions& options, const Launch& launch,
            const std::vector<std::string>& arguments, Communicator world);
  /// The exit status.
  int run();

 private:
  std::string where() const;
  std::string ranks() const;
  void print_head(const std::vector<perf::ProcessOfRank>& processes) const;
  void measure_all();
  perf::Measurement measure(const perf::Cell& cell, int cycle);
  void print_end(const MachineState& state) const;
  void write_documents(const MachineState& state,
                       const std::vector<perf::ProcessOfRank>& processes) const;
  void write_trace();
  double mean_bus_bandwidth() const;

  const PerfOptions& options_;
  const Launch& launch_;
  const std::vector<std::string>& arguments_;
  const std::vector<perf::Cell> cells_;
  Communicator world_;
  const perf::StartUp start_up_;
  const bool prints_, table_;  // rank 0; and it prints a table
  const perf::MeasurementsTable columns_;
  perf::Bench bench_;
  std::vector<perf::Measurement> measurements_;
  std::optional<perf::MemoryUse> memory_use_;
  std::uint64_t wrong_ = 0;
};

}  // namespace capstan::cli
