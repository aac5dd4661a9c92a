// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/verify/forecast.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "core/schedule/proof/shapes.hpp"
#include "core/tools/launcher/complain.hpp"
#include "perf/measure/duration_text.hpp"

namespace capstan::cli {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The algorithms of the cells, each once, in their order.
std::vector<const Algorithm*> algorithms_of(std::span<const ProofCell> cells) {
  std::vector<const Algorithm*> all;
  for (const ProofCell& cell : cells)
    if (all.empty() || all.back() != cell.algorithm) all.push_back(cell.algorithm);
  return all;
}

/// The work that one thread does in a second: of a few algorithms from all parts of the list, on so
/// few ranks that it is known at once. It ends early where all the cells are little work.
double measured_speed(std::span<const ProofCell> cells, double all_work) {
  constexpr std::size_t samples = 8;
  constexpr int ranks = 5;
  const auto algorithms = algorithms_of(cells);
  const auto start = Clock::now();
  double work = 0;
  for (std::size_t i = 0; i < samples && work * samples <= all_work; ++i) {
    const Algorithm& algorithm = *algorithms[i * algorithms.size() / samples];
    const int size = std::min(ranks, algorithm.max_ranks);
    const ProofCell cell{&algorithm, size, awkward_shapes(algorithm.collective, size)};
    static_cast<void>(prove(cell));
    work += work_of(cell);
  }
  return work / seconds_since(start);
}

}  // namespace

std::string summary_of(std::span<const ProofCell> cells) {
  std::set<int> worlds;  // either all worlds are one host, or there is one world only
  for (const ProofCell& cell : cells) worlds.insert(cell.hosts.ranks());
  const std::size_t algorithms = algorithms_of(cells).size();
  return fmt::format("{} algorithm{} on {} world{}", algorithms, algorithms == 1 ? "" : "s",
                     worlds.size(), worlds.size() == 1 ? "" : "s");
}

Forecast::Forecast(std::span<const ProofCell> cells, int threads) {
  double largest = 0;
  for (const ProofCell& cell : cells) {
    all_ += cell.work;
    largest = std::max(largest, cell.work);
  }
  seconds_ = std::max(seconds_, std::max(all_ / threads, largest) / measured_speed(cells, all_));
}

double Forecast::seconds_left(double done, double elapsed) const {
  constexpr double confidence = 3;  // the forecast counts like the speed of so many seconds
  const double speed = (share(done) + confidence / seconds_) / (elapsed + confidence);
  return (1 - share(done)) / speed;
}

ProgressLine::ProgressLine(const Forecast& forecast)
    : forecast_(forecast), terminal_(::isatty(STDERR_FILENO) != 0) {}

void ProgressLine::show(double done, const ProofCell& begun) {
  if (!terminal_) return;
  const double now = elapsed();
  if (done != std::exchange(done_, done)) end_ = now + forecast_.seconds_left(done, now);
  const double left = std::max(end_ - now, 0.0);
  launcher::complain("\r\033[K{:3.0f} %, {} left, now {} by {} on {} ranks\r",
                     100 * forecast_.share(done), perf::duration_text(left),
                     name_of(begun.algorithm->collective), begun.algorithm->name,
                     begun.hosts.ranks());
  std::fflush(stderr);
  shown_ = true;
}

void ProgressLine::clear() {
  if (!std::exchange(shown_, false)) return;
  launcher::complain("\033[K");
  std::fflush(stderr);
}

double ProgressLine::elapsed() const {
  return seconds_since(start_);
}

}  // namespace capstan::cli
