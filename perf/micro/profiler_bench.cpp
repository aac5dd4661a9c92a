// SPDX-License-Identifier: Apache-2.0

// Cost of profiling, on one thread.
//
//   Clock            two readings of the clock, which every record needs
//   Function/ON      an empty function through a profiler that is off (0) or on (1)
//   AllReduce/ON     all_reduce of 8 bytes in a world of one rank; 1: with a profiler, 0: without
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>

#include "capstan/communicator.hpp"
#include "capstan/observe/profiler.hpp"

namespace capstan::perf {
namespace {

void Clock(benchmark::State& state) {
  for (auto _ : state) {
    const auto began = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(began);
    const auto ended = std::chrono::steady_clock::now();
    benchmark::DoNotOptimize(ended);
  }
}
BENCHMARK(Clock);

void Function(benchmark::State& state) {
  Profiler profiler{state.range(0) == 1};
  for (auto _ : state)
    profiler.profile("AllReduce", Bytes{8}, [] { benchmark::ClobberMemory(); }, 4, "Ring");
}
BENCHMARK(Function)->Arg(0)->Arg(1);

void AllReduce(benchmark::State& state) {
  auto world = Communicator::local_world(1);
  const Profiler profiler;
  if (state.range(0) == 1) world.front().attach(profiler);
  const std::array<float, 2> input{1, 2};
  std::array<float, 2> output{};
  for (auto _ : state) {
    world.front().all_reduce(input, output);
    benchmark::DoNotOptimize(output);
  }
}
BENCHMARK(AllReduce)->Arg(0)->Arg(1);

}  // namespace
}  // namespace capstan::perf

BENCHMARK_MAIN();
