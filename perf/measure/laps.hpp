// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "capstan/communicator.hpp"
#include "perf/measure/table.hpp"

namespace capstan::perf {

/// The times of single calls that follow one another, in microseconds. Each costs one look at the
/// clock.
class Laps {
 public:
  using Clock = std::chrono::steady_clock;

  /// Makes room first: a call does not wait for memory.
  void begin(std::size_t calls) {
    times_.reserve(times_.size() + calls);
    last_ = Clock::now();
  }
  void next() {
    const auto now = Clock::now();
    times_.push_back(std::chrono::duration<float, std::micro>(now - last_).count());
    last_ = now;
  }
  const std::vector<float>& times() const { return times_; }

 private:
  std::vector<float> times_;
  Clock::time_point last_;
};

/// The times of all calls of all ranks, in microseconds.
struct Distribution {
  double least = 0, mean = 0, p50 = 0, p90 = 0, p99 = 0, largest = 0;
  std::vector<double> ranks{};  ///< the mean of each rank
  std::uint64_t calls = 0;      ///< of each rank
};

/// The most calls of a rank that are timed one by one in a round: the times of all fit into memory.
std::uint64_t most_laps(int ranks, int rounds);

/// The distribution on rank 0, an empty one on the others. All ranks have made as many calls, each
/// with `buffers` buffers, by which times are divided.
Distribution distribution_of(Communicator& world, const Laps& laps, int buffers);
nlohmann::json to_json(const Distribution& distribution);

/// The columns of a table, and what stands in them.
std::vector<Column> distribution_columns();
inline constexpr double Distribution::* distribution_values[] = {
    &Distribution::least, &Distribution::mean, &Distribution::p50,
    &Distribution::p90,   &Distribution::p99,  &Distribution::largest};

}  // namespace capstan::perf
