// The share of an all-reduce that overlaps with a computation.
//
//   capstan run -n 2 -- overlap_bench [MiB] [rounds]
//
// Every rank measures in turns: the all-reduce alone (sync), the computation alone, and the
// computation between start and wait (overlapped), without and with a progress thread. The overlap
// is the time saved as a share of the shorter part. It can be nearly all where each progress thread
// has a free core. Otherwise both share a core and nothing can be saved.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

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
  Bench(Communicator& world, std::size_t bytes)
      : world_(world), data_(bytes / sizeof(float), 1.0f) {}

  /// The number of steps that take about as long as the all-reduce.
  std::uint64_t calibrate() {
    double sync = 0;
    for (int i = 0; i < 5; ++i) sync = measure_sync();
    constexpr std::uint64_t trial = 1'000'000;
    const auto start = Clock::now();
    compute(trial);
    auto steps = static_cast<std::uint64_t>(sync / milliseconds_since(start) * trial);
    world_.broadcast(std::span{&steps, 1}, 0);
    return steps;
  }

  Sample sample(std::uint64_t steps) {
    Sample sample{.sync = measure_sync(), .compute = 0, .overlapped = 0};
    sample.compute = slowest([&] { compute(steps); });
    sample.overlapped = slowest([&] {
      const Work work = world_.start_all_reduce(data_, ReduceOp::max);
      compute(steps);
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

  Communicator& world_;
  std::vector<float> data_;
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

int run(std::size_t bytes, int rounds) {
  Communicator world = Communicator::from_environment();
  if (world.rank() == 0)
    fmt::print(
        "all_reduce of {} MiB over {} ranks, {} rounds, medians in ms\n{:<24} {:>9} {:>9} "
        "{:>11} {:>10}   (quartiles)\n",
        bytes >> 20, world.size(), rounds, "progress", "sync", "compute", "overlapped", "hidden");
  Bench bench{world, bytes};
  const std::uint64_t steps = bench.calibrate();
  for (const bool threaded : {false, true}) {
    if (threaded) world.start_barrier().ensure_progress();
    std::vector<Sample> samples;
    for (int i = 0; i < rounds; ++i) samples.push_back(bench.sample(steps));
    if (world.rank() == 0) report(threaded ? "by a thread" : "while waiting only", samples);
  }
  world.barrier();
  return 0;
}

}  // namespace
}  // namespace capstan::perf

int main(int argc, char** argv) try {
  const int mebibytes = argc > 1 ? std::atoi(argv[1]) : 8,
            rounds = argc > 2 ? std::atoi(argv[2]) : 31;
  if (mebibytes < 1 || rounds < 1) {
    fmt::print(stderr, "usage: capstan run -n 2 -- overlap_bench [MiB] [rounds]\n");
    return 2;
  }
  return capstan::perf::run(static_cast<std::size_t>(mebibytes) << 20, rounds);
} catch (const capstan::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
