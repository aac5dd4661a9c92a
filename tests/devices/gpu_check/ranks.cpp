// SPDX-License-Identifier: Apache-2.0

// Ranks that share the GPU: results of their collectives and messages, and how long short ones
// take.

#include <fmt/format.h>

#include <cstring>

#include "algorithms/registry.hpp"
#include "core/platform/device/device_kernels.hpp"
#include "perf/measure/cell.hpp"
#include "perf/measure/data.hpp"
#include "tests/devices/device_ranks.hpp"
#include "tests/devices/gpu_check/check.hpp"
#include "tests/devices/gpu_check/vendor.hpp"

namespace capstan::gpu_check {
namespace {

/// The executor alone. Lengths take turns, so that slots rotate.
Row check_executor(Gpu& gpu, int ranks) {
  DeviceRanks world{gpu, ranks, 4};
  for (const std::uint64_t count : {2U, 1000U, 1'000'003U, 2U, 65'536U}) {
    const Call call{.shape = {.count = Elements{count}}};
    const bool small = count * sizeof(float) <= 1024;
    const Choice choice{
        .algorithm = &algorithm_named(Collective::all_reduce, small ? "flat" : "ring"),
        .protocol = small ? Protocol::inline_packets : Protocol::staged};
    const Buffers buffers{gpu, 2 * static_cast<std::size_t>(ranks), count * sizeof(float), 0};
    ByRank<kernels::device::ProgramArguments> launches;
    for (const Rank rank : all_ranks(ranks)) {
      const auto r = static_cast<std::size_t>(rank.value());
      const std::vector<float> values(count, static_cast<float>(r + 1));
      std::vector<std::byte> image(count * sizeof(float));
      std::memcpy(image.data(), values.data(), image.size());
      gpu.write(buffers[2 * r], image);
      launches.push_back(
          world.prepare(make_plan(call, choice, Hosts{ranks}, rank,
                                  {.block = Bytes{1 << 20}, .cached_buffers = Bytes{1 << 20}},
                                  world.segments().slots()),
                        rank, buffers[2 * r], buffers[2 * r + 1]));
    }
    for (int round = 0; round < 5; ++round) world.launch(launches);
    if (!world.wait()) return Row::failed("executor", "kernels did not end");
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
      const auto seen = gpu.read(buffers[2 * r + 1], count * sizeof(float));
      const auto* const values = reinterpret_cast<const float*>(seen.data());
      const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
      if (!std::all_of(values, values + count, [&](float v) { return v == sum; }))
        return Row::failed("executor", fmt::format("{} elements: rank {} got {}, not {}", count, r,
                                                   values[0], sum));
    }
  }
  return Row::ok(fmt::format("executor alone, {} ranks", ranks), "8 B to 4 MB");
}

/// The buffers of a rank for calls of several lengths.
struct CallBuffers {
  std::shared_ptr<std::byte> input, output;
  std::vector<std::byte> image;

  CallBuffers(perf::DeviceCalls& calls, std::size_t bytes)
      : input(calls.allocate(bytes)), output(calls.allocate(bytes)), image(bytes) {}
};

std::string trouble_with_call(Communicator& world, perf::DeviceCalls& calls, CallBuffers& buffers,
                              const perf::Cell& cell) {
  const Contract contract = cell.contract(world.size());
  const perf::TestData data{cell.type, cell.op, contract, world.size()};
  const std::size_t size = bytes_of(contract.extent(), size_of(cell.type)).value();
  const std::span image{buffers.image.data(), size};
  const Request request =
      perf::request_of(cell, world.rank(), world.size(), buffers.input.get(), buffers.output.get());
  data.spoil(image.data(), contract.extent());
  calls.write(buffers.output.get(), image);
  const auto* const input = static_cast<const std::byte*>(request.input);
  std::byte* const base = cell.in_place ? buffers.output.get() : buffers.input.get();
  const auto offset = static_cast<std::size_t>(input - base);
  data.fill(image.data() + offset, world.rank());
  const std::size_t length =
      bytes_of(contract.lengths(world.rank()).input, size_of(cell.type)).value();
  calls.write(base + offset, image.subspan(offset, length));
  calls.run(request);
  calls.finish();
  const auto* const output = static_cast<const std::byte*>(request.output);
  const std::size_t out_size =
      bytes_of(contract.lengths(world.rank()).output, size_of(cell.type)).value();
  const std::span got{buffers.image.data(), out_size};
  calls.read(got, output);
  const auto wrong = data.count_wrong(got.data(), world.rank());
  return wrong == 0 ? ""
                    : fmt::format("{} of {}, {} bytes{}: {} elements are wrong, by {}",
                                  name_of(cell.collective), name_of(cell.type), size,
                                  cell.in_place ? " in place" : "", wrong, calls.explain(request));
}

/// Sends to the next rank, and receives from the one before.
std::string trouble_with_messages(Communicator& world, perf::DeviceCalls& calls,
                                  CallBuffers& buffers, std::size_t bytes) {
  const int size = world.size(), next = (world.rank() + 1) % size,
            before = (world.rank() + size - 1) % size;
  const std::span image{buffers.image.data(), bytes};
  std::ranges::fill(image, static_cast<std::byte>(world.rank() + 1));
  calls.write(buffers.input.get(), image);
  calls.collectives()
      .on(calls.stream())
      .exchange({Message::to(next, std::span{buffers.input.get(), bytes}),
                 Message::from(before, std::span{buffers.output.get(), bytes})});
  calls.finish();
  calls.read(image, buffers.output.get());
  const auto expected = static_cast<std::byte>(before + 1);
  return std::ranges::all_of(image, [&](std::byte b) { return b == expected; })
             ? ""
             : fmt::format("a message of {} bytes is wrong", bytes);
}

/// Microseconds of one call, of which many are in the stream.
double time_in_a_row(Communicator& world, perf::DeviceCalls& calls,
                     const std::function<void()>& start) {
  constexpr int rounds = 5, number = 200;
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    calls.finish();
    world.barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < number; ++i) start();
    calls.finish();
    times.push_back(seconds_since(begin) * 1e6 / number);
  }
  return median(times);
}
double time_alone(Communicator& world, perf::DeviceCalls& calls,
                  const std::function<void()>& start) {
  constexpr int number = 200;
  std::vector<double> times;
  for (int i = 0; i < number; ++i) {
    world.barrier();
    const auto begin = Clock::now();
    start();
    calls.finish();
    times.push_back(seconds_since(begin) * 1e6);
  }
  return median(times);
}

/// A short call beside the shortest kernel: on their own, many in a row, and in a graph.
Row measure_small_call(const std::string& vendor, int ranks, std::size_t bytes) {
  std::string detail;
  const auto name = fmt::format("all_reduce of {}, {} ranks", readable(Bytes{bytes}), ranks);
  const auto trouble = on_ranks(ranks, bounded_settings(), [&](Communicator& world) {
    perf::DeviceCalls calls{world, vendor, 0};
    const Vendor driver{calls.where()};
    const auto memory = calls.allocate(64 + bytes);
    const std::span data{reinterpret_cast<float*>(memory.get() + 64), bytes / sizeof(float)};
    const Request request = request::in_place(Collective::all_reduce, data);
    DeviceKernels& kernels = DeviceKernels::at(calls.where());
    void* const result[] = {memory.get() + 32};
    const void* const source[] = {memory.get() + 48};
    const auto kernel = [&] {
      kernels.reduce(DataType::f32, ReduceOp::sum, {result, source, 1}, calls.stream());
    };
    const auto call = [&] { calls.run(request); };
    call();
    kernel();
    constexpr int captured = 100;
    const auto in_graph = [&](const std::function<void()>& start) {
      calls.finish();
      world.barrier();
      void* const graph = driver.captured(calls.stream(), [&] {
        for (int i = 0; i < captured; ++i) start();
      });
      world.barrier();
      return time_alone(world, calls, [&] { driver.launch(graph, calls.stream()); }) / captured;
    };
    const double alone[] = {time_alone(world, calls, call), time_alone(world, calls, kernel)};
    const double row[] = {time_in_a_row(world, calls, call), time_in_a_row(world, calls, kernel)};
    const double graph[] = {in_graph(call), in_graph(kernel)};
    world.barrier();
    if (world.rank() == 0)
      detail = fmt::format(
          "alone {:.1f} (a kernel that copies 4 bytes {:.1f}), in a row {:.2f} ({:.2f}), in a "
          "graph {:.2f} ({:.2f}) us; {}",
          alone[0], alone[1], row[0], row[1], graph[0], graph[1], calls.explain(request));
    return std::string{};
  });
  return Row::of(name, trouble, detail);
}

}  // namespace

std::string trouble_with_calls(Communicator& world, const std::string& vendor, Bytes longest) {
  perf::DeviceCalls calls{world, vendor, 0};
  CallBuffers buffers{calls, longest.value() + 4096};
  using enum Collective;
  for (std::uint64_t bytes = 8; bytes <= longest.value(); bytes *= bytes < 1 << 20 ? 32 : 16)
    for (const Collective collective : {all_reduce, all_gather, reduce_scatter, broadcast, reduce,
                                        all_to_all, gather, scatter, scan})
      for (const bool in_place : {false, true}) {
        const bool is_odd = world.size() % 2 == 0;  // lengths that no vector divides
        perf::Cell cell =
            perf::cell_of(collective, DataType::f32, ReduceOp::sum,
                          Bytes{bytes + (bytes > 64 && is_odd ? 4 : 0)}, world.size());
        if (has_root(collective)) cell.shape.root = world.size() - 1;
        cell.in_place = in_place;
        if (bytes > 32 << 20 && (in_place || collective > all_reduce)) continue;
        auto trouble = trouble_with_call(world, calls, buffers, cell);
        if (!trouble.empty()) return trouble;
      }
  for (const std::size_t bytes : {8U, 100'000U, 10'000'000U}) {
    if (bytes > longest.value()) continue;
    auto trouble = trouble_with_messages(world, calls, buffers, bytes);
    if (!trouble.empty()) return trouble;
  }
  world.barrier();
  return "";
}

void check_ranks(Gpu& gpu, Bytes longest, Rows& rows) {
  for (const int ranks : {2, 4, 8}) {
    const auto name = fmt::format("executor alone, {} ranks", ranks);
    rows.check(name, [&] { return check_executor(gpu, ranks); });
  }
  for (const bool on_device : {true, false})
    for (const int ranks : {2, 3, 4, 8}) {
      Settings settings = bounded_settings();
      settings.device_executor = on_device;
      const auto begin = Clock::now();
      const auto trouble = on_ranks(ranks, settings, [&](Communicator& world) {
        return trouble_with_calls(world, vendor_of(gpu), on_device ? longest : Bytes{1 << 20});
      });
      rows.add(Row::of(
          fmt::format("collectives, messages: {} threads", ranks), trouble,
          fmt::format("8 B to {}, {}, {:.1f} s", readable(on_device ? longest : Bytes{1 << 20}),
                      on_device ? "kernels" : "staged", seconds_since(begin))));
    }
}

void measure_small_calls(Gpu& gpu, Rows& rows) {
  for (const std::size_t bytes : {8, 1 << 10, 32 << 10})
    for (const int ranks : {1, 2, 4, 8})
      rows.check("short calls", [&] { return measure_small_call(vendor_of(gpu), ranks, bytes); });
}

}  // namespace capstan::gpu_check
