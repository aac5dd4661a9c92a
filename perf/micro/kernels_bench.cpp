// SPDX-License-Identifier: Apache-2.0

// Speed of the CPU kernels beside the memory bandwidth that bounds it.
//
//   Bandwidth/ACCESS/LEVEL            plain reads, writes and copies
//   Reduce/TYPE/OP/SOURCES/LEVEL/TARGET
//   Copy/LEVEL/TARGET
//   CopyAbove/OFFSET/{copy,memcpy}    the destination so many bytes further in its page
//   FromMemory/SOURCES/{plain,ahead}  one source in main memory, the others and the result in tiles
//   Small/TYPE/SOURCES/ELEMENTS       time of a short call
//
// bytes_per_second counts what all threads read and write. percent_of_bound is that as a share of
// the most that plain accesses reach at the same level with as many threads, in the same run. In
// main memory results are streamed and sources fetched ahead. Without --benchmark_filter only the
// active target is shown; a filter chooses from all.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "kernels/cpu/reduce.hpp"
#include "perf/micro/memory_level.hpp"

namespace capstan::perf {
namespace {

/// Times all calls of one thread, from when the benchmark's threads have all arrived at the loop.
class CallTimer {
 public:
  void call_begins() {
    if (!watch_) watch_.emplace();
  }
  double seconds() const { return watch_->seconds(); }

 private:
  std::optional<Stopwatch> watch_;
};

/// `bytes`: moved by one call of one thread. `seconds`: the time of all calls of this thread.
void report(benchmark::State& state, Level level, std::size_t bytes, double seconds) {
  using benchmark::Counter;
  const double moved = static_cast<double>(state.iterations()) * static_cast<double>(bytes);
  const double bound = bandwidth_bound(level, static_cast<std::size_t>(state.threads()));
  const double rate = moved / seconds * state.threads();
  state.counters["bytes_per_second"] = Counter(rate, Counter::kAvgThreads);
  state.counters["percent_of_bound"] = Counter(100 * rate / bound, Counter::kAvgThreads);
}

Region region_of(const benchmark::State& state) {
  return {static_cast<std::size_t>(state.thread_index()),
          static_cast<std::size_t>(state.threads())};
}

void access_memory(benchmark::State& state, Access access, Level level) {
  const std::size_t bytes = footprint(level) / 2 / 4096 * 4096;
  Region region = region_of(state);
  CallTimer timer;
  for (auto _ : state) {
    timer.call_begins();
    const auto [to, from] = region.next(level);
    touch(access, to, from + footprint(level) / 2, bytes);
  }
  report(state, level, traffic(access, bytes), timer.seconds());
}

void reduce(benchmark::State& state, kernels::ReduceKernel kernel, DataType type,
            std::size_t sources, Level level) {
  const std::size_t bytes = footprint(level) / (sources + 1) / 64 * 64;
  Region region = region_of(state);
  std::vector<const void*> pointers(sources);
  CallTimer timer;
  for (auto _ : state) {
    timer.call_begins();
    const auto [to, from] = region.next(level);
    for (std::size_t s = 0; s < sources; ++s) pointers[s] = from + (s + 1) * bytes;
    kernel({to, nullptr, pointers.data(), sources, bytes / size_of(type).value(),
            static_cast<std::uint32_t>(sources), level == Level::dram, level == Level::dram});
  }
  report(state, level, (sources + 1) * bytes, timer.seconds());
}

/// Reduces one source in main memory with others in tiles. Counts the bytes of the source in main
/// memory.
void reduce_from_memory(benchmark::State& state, std::size_t sources, bool ahead) {
  constexpr std::size_t tile = 64 << 10;
  const kernels::ReduceKernel kernel = kernels::reduce_kernel(DataType::f32, ReduceOp::sum);
  const std::size_t bytes = footprint(Level::dram) / tile * tile;
  std::vector<float> tiles(sources * tile / sizeof(float));
  std::vector<const void*> pointers;
  for (std::size_t s = 0; s < sources; ++s) pointers.push_back(&tiles[s * tile / sizeof(float)]);
  Region region = region_of(state);
  CallTimer timer;
  for (auto _ : state) {
    timer.call_begins();
    const std::byte* const from = region.next(Level::dram).from;
    for (std::size_t at = 0; at < bytes; at += tile) {
      pointers[0] = from + at;
      kernel({.destination = tiles.data(),
              .sources = pointers.data(),
              .source_count = sources,
              .element_count = tile / sizeof(float),
              .fetch_ahead = ahead,
              .following = (bytes - at - tile) / sizeof(float)});
    }
  }
  report(state, Level::dram, bytes, timer.seconds());
}

void copy(benchmark::State& state, kernels::CopyKernel kernel, Level level) {
  const std::size_t bytes = footprint(level) / 2;
  Region region = region_of(state);
  CallTimer timer;
  for (auto _ : state) {
    timer.call_begins();
    const auto [to, from] = region.next(level);
    kernel(to, from + bytes, bytes, level == Level::dram);
  }
  report(state, level, 2 * bytes, timer.seconds());
}

/// Copies what a slot may hold from the start of a page to `above` bytes after one.
template <class Copy>
void copy_above(benchmark::State& state, std::size_t above, Copy one) {
  constexpr std::size_t bytes = 16 << 10;
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  std::vector<Page> from(bytes / sizeof(Page)), to(from.size() + 1);
  CallTimer timer;
  for (auto _ : state) {
    timer.call_begins();
    one(to.front().bytes + above, from.front().bytes, bytes);
    benchmark::ClobberMemory();
  }
  report(state, Level::l1, 2 * bytes, timer.seconds());
}

void reduce_small(benchmark::State& state, DataType type, std::size_t sources,
                  std::size_t elements) {
  const kernels::ReduceKernel kernel = kernels::reduce_kernel(type, ReduceOp::sum);
  const auto [to, from] = region_of(state).next(Level::l1);
  std::vector<const void*> pointers(sources);
  for (std::size_t s = 0; s < sources; ++s) pointers[s] = from + (s + 1) * 256;
  CallTimer timer;
  for (auto _ : state) {
    timer.call_begins();
    kernel({to, nullptr, pointers.data(), sources, elements});
    benchmark::ClobberMemory();
  }
  const std::size_t bytes = (sources + 1) * elements * size_of(type).value();
  report(state, Level::l1, bytes, timer.seconds());
}

template <class Function>
auto* add(const std::string& name, Function function) {
  return benchmark::RegisterBenchmark(name.c_str(), function);
}

/// Main memory is also measured with a thread on every core, since that exhausts its bandwidth.
template <class Function>
void add_at(Level level, const std::string& name, Function function) {
  auto* added = add(name, function)->UseRealTime()->Threads(1);
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (level == Level::dram && cores > 1) added->Threads(cores);
}

void add_bandwidth() {
  for (const Level level : levels) {
    for (const Access access : accesses) {
      add_at(level, fmt::format("Bandwidth/{}/{}", name_of(access), name_of(level)),
             [=](benchmark::State& state) { access_memory(state, access, level); });
    }
  }
}

void add_reductions(std::string_view target, DataType type, ReduceOp op) {
  const kernels::ReduceKernel kernel = kernels::reduce_kernel_for(target, type, op);
  for (const std::size_t sources : {2, 4}) {
    for (const Level level : levels) {
      add_at(level,
             fmt::format("Reduce/{}/{}/{}/{}/{}", name_of(type), name_of(op), sources,
                         name_of(level), target),
             [=](benchmark::State& state) { reduce(state, kernel, type, sources, level); });
    }
  }
}

void add_target(std::string_view target) {
  for (const Level level : levels) {
    const kernels::CopyKernel kernel = kernels::copy_kernel_for(target);
    add_at(level, fmt::format("Copy/{}/{}", name_of(level), target),
           [=](benchmark::State& state) { copy(state, kernel, level); });
  }
  for (const DataType type : all_data_types()) {
    for (const ReduceOp op : all_reduce_ops())
      if (supports(type, op)) add_reductions(target, type, op);
  }
}

void add_copies_above() {
  for (const std::size_t above : {0, 1, 16, 31, 32, 63, 64}) {
    const auto add_one = [&](const char* by, auto one) {
      add(fmt::format("CopyAbove/{}/{}", above, by),
          [=](benchmark::State& state) { copy_above(state, above, one); });
    };
    add_one("copy", [](void* to, const void* from, std::size_t bytes) {
      kernels::copy(to, from, bytes, false);
    });
    add_one("memcpy",
            [](void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); });
  }
}

void add_from_memory() {
  for (const std::size_t sources : {2, 4})
    for (const bool ahead : {false, true})
      add_at(Level::dram, fmt::format("FromMemory/{}/{}", sources, ahead ? "ahead" : "plain"),
             [=](benchmark::State& state) { reduce_from_memory(state, sources, ahead); });
}

void add_small() {
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::i64}) {
    for (const std::size_t sources : {2, 4, 8}) {
      for (const std::size_t elements : {1, 2, 4, 7, 16, 64}) {
        add(fmt::format("Small/{}/{}/{}", name_of(type), sources, elements),
            [=](benchmark::State& state) { reduce_small(state, type, sources, elements); });
      }
    }
  }
}

bool has_filter(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with("--benchmark_filter")) return true;
  }
  return false;
}

}  // namespace
}  // namespace capstan::perf

int main(int argc, char** argv) {
  using namespace capstan;
  const bool every_target = perf::has_filter(argc, argv);
  std::string short_runs = "--benchmark_min_time=0.004";  // a flag of the caller overrides it
  std::vector<char*> arguments{argv[0], short_runs.data()};
  arguments.insert(arguments.end(), argv + 1, argv + argc);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 1;
  perf::add_bandwidth();
  perf::add_copies_above();
  perf::add_from_memory();
  perf::add_small();
  for (const std::string_view target : kernels::available_targets()) {
    if (every_target || target == kernels::active_target()) perf::add_target(target);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
