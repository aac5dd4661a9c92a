// SPDX-License-Identifier: Apache-2.0

// The cost of a task of async values, beside a bare coroutine, a std::async and a node of oneTBB's
// flow graph; and whether an all_reduce overlaps with a computation.

#include <benchmark/benchmark.h>

#include <coroutine>
#include <future>

#include "capstan/values/debug_scheduler.hpp"
#include "capstan/values/pool.hpp"
#include "capstan/values/sequence.hpp"
#ifdef CAPSTAN_HAS_TBB
#include <tbb/flow_graph.h>
#endif

namespace {

using namespace capstan::values;

struct Bare {
  struct promise_type {
    Bare get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  std::coroutine_handle<promise_type> handle;
};
Bare bare(const double* in, double* out) {
  *out = *in + 1;
  co_return;
}

void bare_coroutine(benchmark::State& state) {
  double in = 1, out = 0;
  for (auto _ : state) {
    const Bare task = bare(&in, &out);
    benchmark::DoNotOptimize(task.handle);
    task.handle.resume();
    task.handle.destroy();
    benchmark::DoNotOptimize(out);
  }
}
BENCHMARK(bare_coroutine);

void std_async(benchmark::State& state) {
  double out = 0;
  for (auto _ : state) std::async(std::launch::async, [&out] { out += 1; }).wait();
  benchmark::DoNotOptimize(out);
}
BENCHMARK(std_async)->UseRealTime();

AsyncTask add_one(ReadBuffer<double> in, WriteBuffer<double> out) {
  co_await out = co_await in + 1;
}

/// A task that reads one value and writes another, scheduled and run on one thread.
void read_write_task(benchmark::State& state) {
  DebugScheduler scheduler;
  const ScopedScheduler scoped{scheduler};
  Async<double> in = 1.0, out;
  for (auto _ : state) {
    schedule(add_one(in.read(), out.write()));
    scheduler.run_one();
  }
}
BENCHMARK(read_write_task);

constexpr int rows = 1000, columns = 100;  // 10^5 tasks

/// Each task reads one value of the row above and writes one, issued and run.
void graph_of_values(benchmark::State& state) {
  Pool pool;
  const ScopedScheduler scoped{pool};
  for (auto _ : state) {
    std::vector<Async<double>> row(columns);
    for (auto& value : row) value = 0.0;
    for (int i = 0; i < rows; ++i) {
      std::vector<Async<double>> next(columns);
      for (std::size_t k = 0; k < columns; ++k)
        schedule(add_one(row[(k + 1) % columns].read(), next[k].write()));
      row = std::move(next);
    }
    for (auto& value : row)
      if (value.get_wait() != rows) state.SkipWithError("wrong");
  }
  state.SetItemsProcessed(state.iterations() * rows * columns);
}
BENCHMARK(graph_of_values)->UseRealTime()->Unit(benchmark::kMillisecond);

#ifdef CAPSTAN_HAS_TBB
/// The same graph, made and run.
void graph_of_tbb(benchmark::State& state) {
  using Node = tbb::flow::continue_node<tbb::flow::continue_msg>;
  for (auto _ : state) {
    tbb::flow::graph graph;
    std::vector<double> values((rows + 1) * columns);
    std::vector<std::unique_ptr<Node>> nodes;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t k = 0; k < columns; ++k) {
        const double* const in = &values[i * columns + (k + 1) % columns];
        double* const out = &values[(i + 1) * columns + k];
        nodes.push_back(std::make_unique<Node>(graph, [in, out](const tbb::flow::continue_msg&) {
          *out = *in + 1;
          return tbb::flow::continue_msg{};
        }));
        if (i > 0)
          tbb::flow::make_edge(*nodes[(i - 1) * columns + (k + 1) % columns], *nodes.back());
      }
    for (std::size_t k = 0; k < columns; ++k) nodes[k]->try_put(tbb::flow::continue_msg{});
    graph.wait_for_all();
    if (values.back() != rows) state.SkipWithError("wrong");
  }
  state.SetItemsProcessed(state.iterations() * rows * columns);
}
BENCHMARK(graph_of_tbb)->UseRealTime()->Unit(benchmark::kMillisecond);
#endif

/// 8 MiB among two ranks, and a "computation" that sleeps, so that it needs no core: alone, one
/// after the other, and at the same time.
void all_reduce_and_computation(benchmark::State& state) {
  const bool reduces = (state.range(0) & 1) != 0, computes = (state.range(0) & 2) != 0;
  const bool waits_between = (state.range(0) & 4) != 0;
  auto communicators = capstan::Communicator::local_world(2);
  const auto rank = [&](capstan::Communicator& communicator, auto more) {
    Pool pool{{.workers = 1}};
    const ScopedScheduler scoped{pool};
    Sequence world{communicator};
    Async<capstan::Tensor> data = capstan::Tensor{capstan::DataType::f32, {2 << 20}};
    while (more()) {
      if (reduces) world.all_reduce_in_place(data);
      if (waits_between) data.wait();
      if (computes)
        compute([](int) { return std::this_thread::sleep_for(std::chrono::milliseconds{8}), 0; },
                Async<int>{0})
            .wait();
      data.wait();
    }
  };
  std::atomic<long> rounds{0}, allowed{0};
  std::jthread other{[&] {
    rank(communicators[1], [&, mine = 0L]() mutable {
      while (allowed.load() == mine) std::this_thread::yield();
      return allowed.load() >= 0 && ++mine > 0;
    });
  }};
  rank(communicators[0], [&, begun = false]() mutable {
    if (!begun) begun = true;
    const bool more = state.KeepRunning();
    more ? allowed.fetch_add(1) : allowed.exchange(-1);
    return more;
  });
}
BENCHMARK(all_reduce_and_computation)
    ->ArgName("1 all_reduce, 2 computation, 3 both at once, 7 one after the other")
    ->Arg(1)
    ->Arg(2)
    ->Arg(3)
    ->Arg(7)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
