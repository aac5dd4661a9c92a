// SPDX-License-Identifier: Apache-2.0

// The share of an all-reduce that overlaps with a computation.
//
//   capstan run -n 2 -- overlap_bench [MiB] [rounds] [sleep]
//
// Every rank measures in turns: the all-reduce alone (sync), the computation alone, and both at
// once (overlapped): between start and wait, and by compute_while_communicating(), which starts the
// progress thread by itself. The overlap is the time saved as a share of the shorter part. It can
// be nearly all where each progress thread has a free core. Otherwise both share a core and nothing
// can be saved: with `sleep` the computation is a sleep of the same length, as of a rank that waits
// for a device, so that cores of ranks are free for the threads.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "capstan/async/overlap.hpp"
#include "capstan/communicator.hpp"
#include "perf/measure/statistics.hpp"

namespace capstan::perf {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// Arithmetic on registers: it needs a core, but no memory bandwidth.
double compute(std::uint64_t steps) {
  double x = 1.0;
  for (std::uint64_t i = 0; i < steps; ++i) {
    x = x * 1.0000001 + 1e-9;
    asm volatile("" : "+x"(x));
  }
  return x;
}

struct Sample {
  double sync, compute, overlapped;
  double hidden() const { return (sync + compute - overlapped) / std::min(sync, compute); }
};

class Bench {
 public:
  Bench(Communicator& world, std::size_t bytes, bool sleeps)
      : world_(world), sleeps_(sleeps), data_(bytes / sizeof(float), 1.0f) {}

  /// Makes the computation take about as long as the all-reduce.
  void calibrate() {
    for (int i = 0; i < 50; ++i) length_ = measure_sync();
    constexpr std::uint64_t trial = 1'000'000;
    const auto start = Clock::now();
    compute(trial);
    steps_ = static_cast<std::uint64_t>(length_ / milliseconds_since(start) * trial);
    world_.broadcast(std::span{&steps_, 1}, 0);
    world_.broadcast(std::span{&length_, 1}, 0);
  }

  Sample sample(bool by_helper) {
    Sample sample{.sync = measure_sync(), .compute = 0, .overlapped = 0};
    const auto start = [&] { return world_.start_all_reduce(data_, ReduceOp::max); };
    const auto compute = [&] { work(); };
    sample.compute = slowest(compute);
    sample.overlapped = slowest([&] {
      if (by_helper) return compute_while_communicating(start, compute);
      const Work work = start();
      compute();
      work.wait();
    });
    return sample;
  }

 private:
  double measure_sync() {
    return slowest([&] { world_.all_reduce(data_, ReduceOp::max); });
  }

  template <class Body>
  double slowest(Body body) {
    world_.barrier();
    const auto start = Clock::now();
    body();
    double time = milliseconds_since(start);
    world_.all_reduce(std::span{&time, 1}, ReduceOp::max);
    return time;
  }

  void work() const {
    if (sleeps_)
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>{length_});
    else
      compute(steps_);
  }

  Communicator& world_;
  const bool sleeps_;
  std::vector<float> data_;
  std::uint64_t steps_ = 0;
  double length_ = 0;  ///< of the computation, in milliseconds
};

void report(const char* how, const std::vector<Sample>& samples) {
  const auto statistics = [&](auto value) {
    std::vector<double> values;
    for (const Sample& sample : samples) values.push_back(std::invoke(value, sample));
    return Statistics{std::move(values)};
  };
  const Statistics hidden = statistics([](const Sample& s) { return 100 * s.hidden(); });
  fmt::print("{:<24} {:>9.3f} {:>9.3f} {:>11.3f} {:>8.0f} %   ({:.0f} to {:.0f} %)\n", how,
             statistics(&Sample::sync).median(), statistics(&Sample::compute).median(),
             statistics(&Sample::overlapped).median(), hidden.median(), hidden.quantile(0.25),
             hidden.quantile(0.75));
}

int run(std::size_t bytes, int rounds, bool sleeps) {
  Communicator world = Communicator::from_environment();
  if (world.rank() == 0)
    fmt::print(
        "all_reduce of {} MiB over {} ranks, {} rounds, medians in ms\n{:<24} {:>9} {:>9} "
        "{:>11} {:>10}   (quartiles)\n",
        bytes >> 20, world.size(), rounds, "progress", "sync", "compute", "overlapped", "hidden");
  Bench bench{world, bytes, sleeps};
  bench.calibrate();
  for (const bool by_helper : {false, true}) {
    std::vector<Sample> samples;
    for (int i = 0; i < rounds; ++i) samples.push_back(bench.sample(by_helper));
    if (world.rank() == 0)
      report(by_helper ? "compute_while_..." : "between start and wait", samples);
  }
  world.barrier();
  return 0;
}

}  // namespace
}  // namespace capstan::perf

int main(int argc, char** argv) try {
  const int mebibytes = argc > 1 ? std::atoi(argv[1]) : 8,
            rounds = argc > 2 ? std::atoi(argv[2]) : 31;
  const bool sleeps = argc > 3 && std::string_view{argv[3]} == "sleep";
  if (mebibytes < 1 || rounds < 1 || (argc > 3 && !sleeps)) {
    fmt::print(stderr, "usage: capstan run -n 2 -- overlap_bench [MiB] [rounds] [sleep]\n");
    return 2;
  }
  return capstan::perf::run(static_cast<std::size_t>(mebibytes) << 20, rounds, sleeps);
} catch (const capstan::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
