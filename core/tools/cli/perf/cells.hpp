// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/tools/cli/quiet.hpp"
#include "core/tools/launcher/host_options.hpp"
#include "perf/measure/measure.hpp"
#include "perf/measure/table.hpp"

namespace capstan::cli {

/// The options of `capstan perf`.
struct PerfOptions {
  std::vector<std::string> collectives{"all_reduce"};
  std::vector<int> ranks;
  std::string smallest = "8", largest = "64M";
  std::uint64_t factor = 2;
  std::string step;  ///< added instead; empty: there is a factor
  std::vector<std::string> types{"f32"}, ops{"sum"};
  std::string algorithm;
  std::string root = "0";  ///< or "all"
  int threads = 0;         ///< ranks that are threads of this process; 0: they are processes
  double timeout = 0;      ///< seconds after which the job ends; 0: never
  bool in_place = false, both_places = false;
  bool starts = false, fuses = false;  ///< --start, --fused
  bool lists_ranks = false;
  int cycles = 1;  ///< each measures all cells
  bool timestamps = false, memory_use = false;
  perf::TableFormat format = perf::TableFormat::text;
  std::vector<std::string> sizes, against;
  std::string json, chart, trace;
  double least_bandwidth = 0;  ///< GB/s on each link, on average
  launcher::HostOptions where;
  QuietOptions quiet;
  perf::MeasureOptions measure;
};

/// The collectives that the options name; `all` stands for every one of them.
std::vector<Collective> collectives_of(const PerfOptions& options);

/// Why options that range over sizes are refused beside --sizes.
inline constexpr const char* says_it_all = "--sizes says it all: leave this out";

/// All cells that the options select, for groups of so many ranks. Throws InvalidArgument if there
/// are none.
std::vector<perf::Cell> cells_of(const PerfOptions& options, int ranks);

/// The sizes of a sweep, from the smallest to the largest, or those that are named. Throws
/// InvalidArgument for what is none.
std::vector<Bytes> swept_sizes(const PerfOptions& options);

/// The largest size that the options select. Throws InvalidArgument for one that is none.
Bytes largest_of(const PerfOptions& options);

/// The sizes of a comparison: those that were asked for, or else some of the range.
std::vector<Bytes> sizes_of(const PerfOptions& options);

/// Selected pairs of operation and type that are not defined.
std::vector<std::string> undefined_pairs(const PerfOptions& options);

}  // namespace capstan::cli
