// SPDX-License-Identifier: Apache-2.0
#include "perf/measure/laps.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

namespace capstan::perf {
namespace {

double mean(std::span<const float> times) {
  return std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
}

/// The value of nearest rank, found without sorting all.
double quantile(std::vector<float>& times, double share) {
  const auto at =
      static_cast<std::ptrdiff_t>(std::round(share * static_cast<double>(times.size() - 1)));
  std::ranges::nth_element(times, times.begin() + at);
  return times[static_cast<std::size_t>(at)];
}

}  // namespace

std::uint64_t most_laps(int ranks, int rounds) {
  constexpr double most = 1 << 24;
  return static_cast<std::uint64_t>(std::clamp(most / ranks / rounds, 16.0, 20000.0));
}

Distribution distribution_of(Communicator& world, const Laps& laps, int buffers) {
  const std::vector<float>& own = laps.times();
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<float> all(world.rank() == 0 ? own.size() * ranks : 0);
  world.gather(own, all, 0);
  if (all.empty()) return {};
  for (float& each : all) each /= static_cast<float>(buffers);
  Distribution result{.calls = own.size()};
  for (std::size_t rank = 0; rank < ranks; ++rank)
    result.ranks.push_back(mean(std::span{all}.subspan(rank * own.size(), own.size())));
  result.mean = mean(all);
  const auto [least, largest] = std::ranges::minmax(all);
  result.least = least, result.largest = largest;
  result.p50 = quantile(all, 0.5), result.p90 = quantile(all, 0.9);
  result.p99 = quantile(all, 0.99);
  return result;
}

std::vector<Column> distribution_columns() {
  return {{"call min", "(us)", 8, 6}, {"avg", "(us)", 8, 4}, {"p50", "(us)", 8, 2},
          {"p90", "(us)", 8, 5},      {"p99", "(us)", 8, 1}, {"max", "(us)", 8, 3}};
}

nlohmann::json to_json(const Distribution& d) {
  return {{"calls_of_a_rank", d.calls},
          {"min_us", d.least},
          {"mean_us", d.mean},
          {"p50_us", d.p50},
          {"p90_us", d.p90},
          {"p99_us", d.p99},
          {"max_us", d.largest},
          {"ranks_mean_us", d.ranks}};
}

}  // namespace capstan::perf
