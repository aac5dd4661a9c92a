// What a call costs besides waiting for others: all ranks are driven by one thread, which never has
// to wait, and their memory stays in its caches. Times are for one call of one rank.
//
//   Alone            all_reduce of 8 bytes in a world of one rank
//   Broadcast/RANKS  broadcast of 8 bytes from rank 0; then the others take it, one after another
#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "core/communicator.hpp"

namespace capstan::perf {
namespace {

void Alone(benchmark::State& state) {
  auto world = Communicator::local_world(1);
  const std::array<float, 2> input{1, 2};
  std::array<float, 2> output{};
  for (auto _ : state) {
    world.front().all_reduce(input, output);
    benchmark::DoNotOptimize(output);
  }
}
BENCHMARK(Alone);

void Broadcast(benchmark::State& state) {
  Settings settings;
  settings.trials = false;  // ranks would have to talk about them
  auto world = Communicator::local_world(static_cast<int>(state.range(0)), settings);
  std::vector<std::array<float, 2>> buffers(world.size());
  for (auto _ : state) {
    for (std::size_t rank = 0; rank < world.size(); ++rank) world[rank].broadcast(buffers[rank], 0);
    benchmark::DoNotOptimize(buffers.data());
  }
  const auto calls = state.iterations() * state.range(0);
  state.counters["call"] = benchmark::Counter(
      static_cast<double>(calls), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(Broadcast)->Arg(2)->Arg(4)->Arg(8);

}  // namespace
}  // namespace capstan::perf

BENCHMARK_MAIN();
