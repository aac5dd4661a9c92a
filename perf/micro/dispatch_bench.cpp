// SPDX-License-Identifier: Apache-2.0

// Cost of a call without waiting for others: one thread drives all ranks and never has to wait, and
// their memory stays in its caches. Times are for one call of one rank.
//
//   Alone/BUFFERS    all_reduce of 8 bytes in a world of one rank, with BUFFERS buffers in turn
//   AndBarrier       the same with one buffer, each followed by a barrier; time of both
//   Broadcast/RANKS  broadcast of 8 bytes from rank 0, which the other ranks receive in turn
//   Started/CALLS    so many all_reduces of 8 bytes in a world of one rank, started, then awaited
//   Ahead/CALLS      so many broadcasts of 8 bytes, started on the root, then on another rank
//   Window/MESSAGES  so many messages of 8 bytes: sends are started, then receives, then awaited
#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "capstan/communicator.hpp"

namespace capstan::perf {
namespace {

using Buffer = std::array<float, 2>;

void Alone(benchmark::State& state) {
  auto world = Communicator::local_world(1);
  const auto buffers = static_cast<std::size_t>(state.range(0));
  const Buffer input{1, 2};
  std::vector<Buffer> outputs(buffers);
  std::size_t next = 0;
  for (auto _ : state) {
    world.front().all_reduce(input, outputs[next]);
    benchmark::DoNotOptimize(outputs.data());
    if (++next == buffers) next = 0;
  }
}
BENCHMARK(Alone)->Arg(1)->Arg(2)->Arg(8)->Arg(100);

void AndBarrier(benchmark::State& state) {
  auto world = Communicator::local_world(1);
  const Buffer input{1, 2};
  Buffer output{};
  for (auto _ : state) {
    world.front().all_reduce(input, output);
    world.front().barrier();
    benchmark::DoNotOptimize(output);
  }
}
BENCHMARK(AndBarrier);

void Broadcast(benchmark::State& state) {
  Settings settings;
  settings.autotune = false;  // ranks would have to agree on its decisions
  auto world = Communicator::local_world(static_cast<int>(state.range(0)), settings);
  std::vector<Buffer> buffers(world.size());
  for (auto _ : state) {
    for (std::size_t rank = 0; rank < world.size(); ++rank) world[rank].broadcast(buffers[rank], 0);
    benchmark::DoNotOptimize(buffers.data());
  }
  const auto calls = state.iterations() * state.range(0);
  state.counters["call"] = benchmark::Counter(
      static_cast<double>(calls), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}
BENCHMARK(Broadcast)->Arg(2)->Arg(4)->Arg(8);

/// The time of one call of one rank.
void count_calls(benchmark::State& state, std::int64_t calls) {
  state.counters["call"] =
      benchmark::Counter(static_cast<double>(state.iterations() * calls),
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void Started(benchmark::State& state) {
  auto world = Communicator::local_world(1);
  const Buffer input{1, 2};
  std::vector<Buffer> outputs(static_cast<std::size_t>(state.range(0)));
  std::vector<Work> works;
  for (auto _ : state) {
    for (Buffer& output : outputs) works.push_back(world.front().start_all_reduce(input, output));
    for (const Work& work : works) work.wait();
    works.clear();
  }
  count_calls(state, state.range(0));
}
BENCHMARK(Started)->Arg(1)->Arg(16)->Arg(100);

void Ahead(benchmark::State& state) {
  Settings settings;
  settings.autotune = false;
  auto world = Communicator::local_world(2, settings);
  std::vector<Buffer> buffers(static_cast<std::size_t>(state.range(0)));
  std::vector<Work> works;
  for (auto _ : state) {
    for (Communicator& rank : world)
      for (Buffer& buffer : buffers) works.push_back(rank.start_broadcast(buffer, 0));
    for (const Work& work : works) work.wait();
    works.clear();
  }
  count_calls(state, 2 * state.range(0));
}
BENCHMARK(Ahead)->Arg(1)->Arg(16);

void Window(benchmark::State& state) {
  auto world = Communicator::local_world(2);
  std::vector<Buffer> buffers(static_cast<std::size_t>(state.range(0)));
  std::vector<Work> works;
  for (auto _ : state) {
    for (Buffer& buffer : buffers) works.push_back(world[0].start_send(buffer, 1));
    for (Buffer& buffer : buffers) works.push_back(world[1].start_receive(buffer, 0));
    for (const Work& work : works) work.wait();
    works.clear();
  }
  count_calls(state, state.range(0));
}
BENCHMARK(Window)->Arg(1)->Arg(16)->Arg(64);

}  // namespace
}  // namespace capstan::perf

BENCHMARK_MAIN();
