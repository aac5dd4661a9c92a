// SPDX-License-Identifier: Apache-2.0

// The order of streams, and calls that are captured into graphs.

#include <fmt/format.h>

#include <cstring>

#include "core/platform/device/device_kernels.hpp"
#include "tests/devices/gpu_check/check.hpp"
#include "tests/devices/gpu_check/vendor.hpp"

namespace capstan::gpu_check {
namespace {

constexpr std::size_t count = 1 << 20, bytes = count * sizeof(float);

std::vector<std::byte> image_of(float value) {
  const std::vector<float> values(count, value);
  std::vector<std::byte> image(bytes);
  std::memcpy(image.data(), values.data(), bytes);
  return image;
}

std::string expect_all(Gpu& gpu, const std::byte* buffer, float expected) {
  const auto image = gpu.read(buffer, bytes);
  std::vector<float> values(count);
  std::memcpy(values.data(), image.data(), bytes);
  const auto wrong = std::ranges::find_if(values, [&](float v) { return v != expected; });
  return wrong == values.end() ? "" : fmt::format("saw {}, not {}", *wrong, expected);
}

/// A kernel that adds `left` and `right`, many times, so that it lasts: on a GPU a few
/// milliseconds.
int repetitions = 200;
void add_slowly(Gpu& gpu, std::byte* to, std::byte* left, std::byte* right, void* stream) {
  void* const result[] = {to};
  const void* const both[] = {left, right};
  for (int i = 0; i < repetitions; ++i)
    DeviceKernels::at(gpu.where())
        .reduce(DataType::f32, ReduceOp::sum, {result, both, count}, stream);
}

/// Kernels of a stream, a call, and kernels again: the right sum is seen only where the stream
/// orders them. Unordered, the call has another stream, and has to see what was there before.
std::string trouble_with_order(Gpu& gpu, Communicator& world, bool ordered, std::string& way) {
  StreamCollectives streams{world};
  void *const stream = gpu.make_stream(), *const other = gpu.make_stream();
  const Buffers buffers{gpu, 3, bytes, 0};
  const std::span<float> data{reinterpret_cast<float*>(buffers[1]), count};
  const auto own = static_cast<float>(world.rank() + 1);
  const auto size = static_cast<float>(world.size());
  gpu.write(buffers[0], image_of(own));
  gpu.write(buffers[1], image_of(0));
  streams.on(other).all_reduce(data);  // ranks agree on such calls: 0
  gpu.wait(other, std::chrono::minutes{1});
  add_slowly(gpu, buffers[1], buffers[0], buffers[0], stream);
  streams.on(ordered ? stream : other).all_reduce(data);
  if (!ordered) {
    gpu.wait(other, std::chrono::minutes{1});
    gpu.wait(stream, std::chrono::minutes{1});
  }
  add_slowly(gpu, buffers[2], buffers[1], buffers[1], stream);
  gpu.wait(stream, std::chrono::minutes{1});
  way = streams.explain(request::in_place(Collective::all_reduce, data));
  const float sum = size * (size + 1) / 2;
  return expect_all(gpu, buffers[2], 2 * 2 * sum);
}

Row check_stream_order(int ranks, bool on_device, bool ordered) {
  Settings settings = bounded_settings();
  settings.device_executor = on_device;
  std::vector<std::string> ways(static_cast<std::size_t>(ranks));
  const std::string trouble = on_ranks(ranks, settings, [&](Communicator& world) {
    Gpu gpu;
    return trouble_with_order(gpu, world, ordered, ways[static_cast<std::size_t>(world.rank())]);
  });
  if (!ordered)
    return Row::of("stream order: the check without it", trouble.empty() ? "not noticed" : "",
                   "noticed: " + trouble);
  return Row::of(fmt::format("stream order, {} ranks", ranks), trouble,
                 "kernel, all_reduce, kernel; " + ways[0]);
}

/// Captured once, replayed many times, with direct calls between. Each adds the sum of all ranks to
/// a total, so that one that is lost or comes twice is seen.
std::string trouble_with_graph(Communicator& world, const std::string& vendor, int replays) {
  perf::DeviceCalls calls{world, vendor, 0};
  const Vendor driver{calls.where()};
  constexpr std::size_t length = 20'000, size = length * sizeof(std::int32_t);
  const auto memory = calls.allocate(3 * size);
  std::byte *const own = memory.get(), *const sum = own + size, *const total = sum + size;
  std::vector<std::int32_t> values(length, world.rank() + 1);
  calls.write(own, std::as_bytes(std::span{values}));
  const Request request =
      request::of(Collective::all_reduce,
                  std::span<const std::int32_t>{reinterpret_cast<std::int32_t*>(own), length},
                  std::span{reinterpret_cast<std::int32_t*>(sum), length});
  void* const result[] = {total};
  const void* const both[] = {total, sum};
  const auto add = [&] {
    calls.run(request);
    DeviceKernels::at(calls.where())
        .reduce(DataType::i32, ReduceOp::sum, {result, both, length}, calls.stream());
  };
  int added = 1;
  add();
  calls.finish();
  world.barrier();
  void* const graph = driver.captured(calls.stream(), add);
  world.barrier();
  for (int i = 0; i < replays; ++i, ++added) {
    driver.launch(graph, calls.stream());
    if (i % 100 == 99) add(), ++added;
  }
  calls.finish();
  world.barrier();
  calls.read(std::as_writable_bytes(std::span{values}), total);
  const int expected = added * world.size() * (world.size() + 1) / 2;
  return std::ranges::all_of(values, [&](auto v) { return v == expected; })
             ? ""
             : fmt::format("{}, not {}", values[0], expected);
}

}  // namespace

void check_order(Gpu&, bool kernels_meet, Rows& rows) {
  if (!kernels_meet) repetitions = 3;  // the stand-in is slow by itself
  for (const int ranks : {2, 4, 8})
    for (const bool on_device : {false, true})
      if (kernels_meet || !on_device)
        rows.check("stream order", [&] { return check_stream_order(ranks, on_device, true); });
  if (kernels_meet) rows.check("stream order", [] { return check_stream_order(2, true, false); });
}

void check_graphs(Gpu& gpu, Rows& rows) {
  for (const int ranks : {1, 2, 4, 8}) {
    constexpr int replays = 1000;
    const auto name = fmt::format("graphs, {} ranks", ranks);
    rows.check(name, [&] {
      return Row::of(name,
                     on_ranks(ranks, bounded_settings(),
                              [&](Communicator& world) {
                                return trouble_with_graph(world, vendor_of(gpu), replays);
                              }),
                     fmt::format("a call captured once, {} replays between direct calls", replays));
    });
  }
}

}  // namespace capstan::gpu_check
