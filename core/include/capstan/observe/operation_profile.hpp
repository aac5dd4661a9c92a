// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "capstan/export.hpp"
#include "capstan/quantity.hpp"

namespace CAPSTAN_EXPORT capstan {

/// MiB per second; 0 for a duration of 0.
double bandwidth_of(Bytes bytes, std::chrono::nanoseconds duration);

/// One operation that a Profiler has measured.
struct OperationProfile {
  std::string operation;  ///< "all_reduce", or what the program calls it
  Bytes bytes{};          ///< of a collective: of its largest buffer
  std::chrono::nanoseconds duration{};
  double bandwidth = 0;   ///< MiB/s; 0 for a duration of 0
  int ranks = 0;          ///< 0: not told
  std::string algorithm;  ///< empty: not told
  std::chrono::system_clock::time_point began{};
  std::chrono::system_clock::time_point timestamp{};  ///< the end

  int rank = -1;            ///< in the world, which measured it; -1: not told
  std::string tag;          ///< of the communicator: see Communicator::attach()
  bool failed = false;      ///< the operation threw, or was cancelled
  std::uint64_t index = 0;  ///< among all operations since the profiler was made or cleared

  /// "AllReduce (Ring): 1.00 MB, 2.00 ms, 500.00 MB/s, 4 ranks". MB are MiB.
  std::string to_string() const;
};

/// One step of a collective, as a rank has carried it out: see ProfilerOptions::steps.
struct StepProfile {
  std::string step{};  ///< "copy", "reduce", "push", "flush", "signal", "wait", "notify", "slot"
  int peer = -1;       ///< the rank of the communicator that took part; -1: none did, or several
  Bytes bytes{};       ///< of each source; 0: none
  std::uint64_t block = 0;  ///< of the call
  std::uint32_t number =
      0;  ///< of the schedule's step that it comes from, as `capstan explain` has it
  std::chrono::system_clock::time_point began{};
  std::chrono::nanoseconds duration{};
  int rank = -1;                ///< in the world
  std::string tag{};            ///< of the communicator
  std::uint64_t operation = 0;  ///< OperationProfile::index of the call
};

/// Three percentiles: of n values in ascending order, the q-th is number ceil(q / 100 · n).
struct Percentiles {
  double p50 = 0, p90 = 0, p99 = 0;
};

/// Sums over operations that have succeeded. Zeros when there are none.
struct ProfileStatistics {
  std::uint64_t operations = 0;
  Bytes bytes{};
  std::chrono::duration<double, std::milli> time{};
  double average_bandwidth = 0;  ///< the mean of the operations' bandwidths, MiB/s
  double least_bandwidth = 0, greatest_bandwidth = 0;
  std::uint64_t failures = 0;           ///< operations that have failed; not part of the sums
  Percentiles duration{}, bandwidth{};  ///< of the operations that are still stored: ms and MiB/s

  /// "Total Operations: 3, Total Data: 0.01 GB, Total Time: 0.02 s, Avg Bandwidth: 500.00 MB/s".
  /// GB and MB are GiB and MiB.
  std::string to_string() const;
};

/// The statistics of one operation by one algorithm.
struct ProfileGroup {
  std::string operation, algorithm;
  ProfileStatistics statistics;
};

}  // namespace CAPSTAN_EXPORT capstan
