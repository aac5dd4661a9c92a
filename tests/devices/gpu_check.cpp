// Usage: gpu_check [--kernels] [--library FILE]
//
// Checks on a GPU what only a GPU can show, and ends with a table. `scripts/gpu-check` runs it.
// --kernels leaves out figures, and kernels that wait for each other: for tools that run one kernel
// at a time. --library does as well, and loads a driver from a file first: the stand-in of the
// tests.

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string_view>
#include <thread>

#include "algorithms/registry.hpp"
#include "capstan/async/streams.hpp"
#include "capstan/error.hpp"
#include "core/device/device_kernels.hpp"
#include "tests/devices/device_ranks.hpp"
#include "tests/devices/gpu.hpp"
#include "tests/devices/operands.hpp"

namespace capstan {
namespace {

using Clock = std::chrono::steady_clock;

struct Row {
  std::string name, result, detail;
};

/// Several buffers on the device, one after another at a distance that is aligned or not.
class Buffers {
 public:
  Buffers(Gpu& gpu, std::size_t number, std::size_t bytes, std::size_t shift)
      : gpu_(gpu), memory_(gpu.allocate(number * (bytes + 256 + shift))) {
    for (std::size_t i = 0; i < number; ++i)
      at_.push_back(memory_ + i * ((bytes + 255) / 256 * 256 + shift));
  }
  Buffers(const Buffers&) = delete;
  ~Buffers() { gpu_.release(memory_); }
  std::byte* operator[](std::size_t i) const { return at_[i]; }

 private:
  Gpu& gpu_;
  std::byte* memory_;
  std::vector<std::byte*> at_;
};

/// Each type and operation with random bits, aligned and not, against the processor.
Row check_reductions(Gpu& gpu) {
  DeviceKernels& kernels = DeviceKernels::at(gpu.where());
  constexpr std::size_t count = 10'007, number = 3;
  std::size_t checked = 0;
  std::string wrong;
  for (const DataType type : all_data_types())
    for (const ReduceOp op : all_reduce_ops())
      for (const std::size_t shift : {std::size_t{0}, size_of(type).value()}) {
        if (!supports(type, op)) continue;
        std::vector<std::vector<std::byte>> values;
        const std::size_t bytes = count * size_of(type).value();
        const Buffers buffers{gpu, number + 1, bytes, shift};
        std::vector<const void*> sources;
        for (std::size_t s = 0; s < number; ++s) {
          values.push_back(random_elements(type, count, s + 1));
          gpu.write(buffers[s], values.back());
          sources.push_back(buffers[s]);
        }
        void* const destination[] = {buffers[number]};
        const std::uint32_t divisor = op == ReduceOp::average ? number : 1;
        kernels.reduce(type, op, {destination, sources, count, divisor}, gpu.stream());
        gpu.wait();
        ++checked;
        if (gpu.read(buffers[number], bytes) != reduced_by_processor(type, op, values, divisor))
          wrong += fmt::format(" {}/{}", name_of(type), name_of(op));
      }
  return {"reductions, bit for bit as the processor", wrong.empty() ? "ok" : "FAILED",
          wrong.empty() ? fmt::format("{} cases", checked) : "wrong:" + wrong};
}

double seconds_of(Gpu& gpu, const std::function<void()>& start) {
  constexpr int rounds = 7, calls = 20;
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) start();
    gpu.wait();
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count() / calls);
  }
  std::ranges::nth_element(times, times.begin() + rounds / 2);
  return times[rounds / 2];
}

/// Bytes read and written per second, beside a copy by the same kernels (one source).
std::vector<Row> measure_reductions(Gpu& gpu, std::size_t bytes) {
  DeviceKernels& kernels = DeviceKernels::at(gpu.where());
  const Buffers buffers{gpu, 9, bytes, 0};
  std::vector<Row> rows;
  double copy_rate = 0;
  for (const std::size_t number : {1U, 2U, 4U, 8U}) {
    std::vector<const void*> sources;
    for (std::size_t s = 0; s < number; ++s) sources.push_back(buffers[s]);
    void* const destination[] = {buffers[8]};
    const double seconds = seconds_of(gpu, [&] {
      kernels.reduce(DataType::f32, ReduceOp::sum, {destination, sources, bytes / sizeof(float)},
                     gpu.stream());
    });
    const double rate = static_cast<double>((number + 1) * bytes) / seconds / 1e9;
    if (number == 1) copy_rate = rate;
    rows.push_back(
        {number == 1 ? "copy of 64 MiB by kernel" : fmt::format("sum of {} x 64 MiB", number),
         number == 1 || rate >= 0.9 * copy_rate ? "ok" : "below 90 %",
         fmt::format("{:.0f} GB/s, {:.0f} % of the copy", rate, 100 * rate / copy_rate)});
  }
  return rows;
}

/// Kernels of a stream, a call, and kernels again: the sum is seen only where the stream orders
/// them. `on_device`: the call is a kernel as well, where it can be.
Row check_stream_order(Gpu& gpu, int ranks, bool on_device) {
  constexpr std::size_t count = 1 << 20, bytes = count * sizeof(float);
  Settings settings = Settings::from_environment();
  settings.device_executor = on_device;
  auto world = Communicator::local_world(ranks, settings);
  std::vector<std::string> wrong(static_cast<std::size_t>(ranks)), ways = wrong;
  std::vector<std::jthread> threads;
  for (auto& communicator : world)
    threads.emplace_back([&gpu, &communicator,
                          &own = wrong[static_cast<std::size_t>(communicator.rank())],
                          &way = ways[static_cast<std::size_t>(communicator.rank())]] {
      StreamCollectives streams{communicator};
      DeviceKernels& kernels = DeviceKernels::at(gpu.where());
      Gpu own_gpu;
      void* const stream = own_gpu.make_stream();
      const Buffers buffers{own_gpu, 3, bytes, 0};
      std::vector<float> ones(count, 1);
      std::vector<std::byte> image(bytes);
      std::memcpy(image.data(), ones.data(), bytes);
      own_gpu.write(buffers[0], image);
      void *const input[] = {buffers[1]}, *const result[] = {buffers[2]};
      const void *const twice[] = {buffers[0], buffers[0]}, *const sum[] = {buffers[1]};
      kernels.reduce(DataType::f32, ReduceOp::sum, {input, twice, count}, stream);  // all 2
      const std::span<float> data{reinterpret_cast<float*>(buffers[1]), count};
      streams.on(stream).all_reduce(data);
      way = streams.explain(request::in_place(Collective::all_reduce, data));
      kernels.reduce(DataType::f32, ReduceOp::sum, {result, sum, count}, stream);
      own_gpu.wait(stream, std::chrono::minutes{2});
      const auto seen = own_gpu.read(buffers[2], bytes);
      const auto* const values = reinterpret_cast<const float*>(seen.data());
      const auto expected = static_cast<float>(2 * communicator.size());
      if (!std::all_of(values, values + count, [&](float v) { return v == expected; }))
        own = fmt::format("rank {} saw {}, not {}", communicator.rank(), values[0], expected);
    });
  threads.clear();
  for (const auto& text : wrong)
    if (!text.empty()) return {"stream order", "FAILED", text};
  return {fmt::format("stream order, {} ranks", ranks), "ok",
          "kernel, all_reduce, kernel; " + ways[0]};
}

/// Ranks on one GPU: their kernels meet in device memory. Lengths take turns, so that slots rotate.
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
    if (!world.wait()) return {"executor", "FAILED", "kernels did not end"};
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r) {
      const auto seen = gpu.read(buffers[2 * r + 1], count * sizeof(float));
      const auto* const values = reinterpret_cast<const float*>(seen.data());
      const auto sum = static_cast<float>(ranks * (ranks + 1) / 2);
      if (!std::all_of(values, values + count, [&](float v) { return v == sum; }))
        return {"executor", "FAILED",
                fmt::format("{} elements: rank {} got {}, not {}", count, r, values[0], sum)};
    }
  }
  return {fmt::format("executor, {} ranks on the GPU", ranks), "ok", "8 B to 4 MB"};
}

Row guarded(const std::string& name, const std::function<Row()>& check) {
  try {
    return check();
  } catch (const std::exception& error) {
    return {name, "FAILED", error.what()};
  }
}

int run(bool all) {
  std::unique_ptr<Gpu> gpu;
  try {
    gpu = std::make_unique<Gpu>();
  } catch (const Error& error) {
    fmt::print("gpu-check: nothing was checked: {}\n", error.what());
    return 0;
  }
  std::vector<Row> rows;
  rows.push_back(guarded("reductions", [&] { return check_reductions(*gpu); }));
  for (const int ranks : {2, 4, 8})
    for (const bool on_device : {false, true})
      if (all || !on_device)
        rows.push_back(
            guarded("stream order", [&] { return check_stream_order(*gpu, ranks, on_device); }));
  for (const int ranks : {2, 4, 8})
    if (all) rows.push_back(guarded("executor", [&] { return check_executor(*gpu, ranks); }));
  if (all) try {
      for (auto& row : measure_reductions(*gpu, std::size_t{64} << 20)) rows.push_back(row);
    } catch (const Error& error) {
      rows.push_back({"speed of reductions", "FAILED", error.what()});
    }
  bool failed = false;
  for (const Row& row : rows) {
    fmt::print("{:<42} {:<11} {}\n", row.name, row.result, row.detail);
    failed = failed || row.result == "FAILED";
  }
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace capstan

int main(int count, char** arguments) {
  // Ranks share the GPU: a kernel that waits must not hold up another rank's in the same queue.
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
  bool all = true;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    all = false;
    if (argument == "--kernels") continue;
    if (argument != "--library" || ++i == count) {
      fmt::print(stderr, "Usage: gpu_check [--kernels] [--library FILE]\n");
      return 2;
    }
    if (!::dlopen(arguments[i], RTLD_NOW | RTLD_NODELETE)) {
      fmt::print(stderr, "gpu-check: {} cannot be loaded: {}\n", arguments[i], ::dlerror());
      return 2;
    }
  }
  return capstan::run(all);
}
