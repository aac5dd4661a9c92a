// SPDX-License-Identifier: Apache-2.0

// Reductions of one kernel: against the processor, against double precision, and their speed.

#include <fmt/format.h>

#include <cmath>
#include <random>

#include "core/platform/device/device_kernels.hpp"
#include "kernels/cpu/small_float.hpp"
#include "tests/devices/gpu_check/check.hpp"
#include "tests/devices/gpu_check/vendor.hpp"
#include "tests/devices/operands.hpp"

namespace capstan::gpu_check {
namespace {

/// Each type and operation with random bits, aligned and not, bit for bit.
Row check_bits(Gpu& gpu) {
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
  return Row::of("reductions, bit for bit as the processor", wrong.empty() ? "" : "wrong:" + wrong,
                 fmt::format("{} cases", checked));
}

/// The error of a sum of fresh random numbers, relative to the sum in double precision.
template <class T, class Narrow, class Widen>
double error_of_sum(Gpu& gpu, DataType type, Narrow narrow, Widen widen) {
  constexpr std::size_t count = 1 << 20, number = 8;
  std::mt19937_64 random{std::random_device{}()};
  std::uniform_real_distribution<double> values{-1, 1};
  std::vector<double> sums(count);
  const Buffers buffers{gpu, number + 1, count * sizeof(T), 0};
  std::vector<const void*> sources;
  for (std::size_t s = 0; s < number; ++s) {
    std::vector<T> source(count);
    for (std::size_t i = 0; i < count; ++i) {
      source[i] = narrow(values(random));
      sums[i] += widen(source[i]);
    }
    const auto* const bytes = reinterpret_cast<const std::byte*>(source.data());
    gpu.write(buffers[s], {bytes, bytes + count * sizeof(T)});
    sources.push_back(buffers[s]);
  }
  gpu.write(buffers[number], std::vector<std::byte>(count * sizeof(T), std::byte{0xff}));
  void* const destination[] = {buffers[number]};
  DeviceKernels::at(gpu.where())
      .reduce(type, ReduceOp::sum, {destination, sources, count}, gpu.stream());
  gpu.wait();
  const auto image = gpu.read(buffers[number], count * sizeof(T));
  std::vector<T> results(count);
  std::memcpy(results.data(), image.data(), image.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < count; ++i) {
    error += std::pow(widen(results[i]) - sums[i], 2);
    norm += sums[i] * sums[i];
  }
  return std::sqrt(error / norm);
}

Row check_precision(Gpu& gpu) {
  using kernels::from_float, kernels::to_float;
  const auto same = [](auto v) { return static_cast<double>(v); };
  const auto small = [&]<class T>(DataType type) {
    return error_of_sum<T>(
        gpu, type, [](double v) { return from_float<T>(static_cast<float>(v)); },
        [](T v) { return static_cast<double>(to_float(v)); });
  };
  struct Case {
    const char* name;
    double error, bound;
  };
  // The bounds are a unit of the last place of the type, and of a sum of eight for f32.
  const Case cases[] = {
      {"f64", error_of_sum<double>(gpu, DataType::f64, same, same), 1e-15},
      {"f32",
       error_of_sum<float>(
           gpu, DataType::f32, [](double v) { return static_cast<float>(v); }, same),
       2e-7},
      {"f16", small.operator()<Float16>(DataType::f16), 1e-3},
      {"bf16", small.operator()<BFloat16>(DataType::bf16), 8e-3},
      {"f8_e4m3", small.operator()<Float8E4M3>(DataType::f8_e4m3), 0.07},
      {"f8_e5m2", small.operator()<Float8E5M2>(DataType::f8_e5m2), 0.13}};
  std::string wrong, detail;
  for (const Case& one : cases) {
    detail += fmt::format("{}{} {:.1e}", detail.empty() ? "" : ", ", one.name, one.error);
    if (!(one.error < one.bound)) wrong += fmt::format(" {} {:.1e}", one.name, one.error);
  }
  return Row::of("sums of 8 beside double precision", wrong, detail);
}

double seconds_of(Gpu& gpu, const std::function<void()>& start) {
  constexpr int rounds = 7, calls = 20;
  std::vector<double> times;
  start();
  gpu.wait();
  for (int round = 0; round < rounds; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) start();
    gpu.wait();
    times.push_back(seconds_since(begin) / calls);
  }
  return median(times);
}

}  // namespace

void check_kernels(Gpu& gpu, Rows& rows) {
  rows.check("reductions", [&] { return check_bits(gpu); });
  rows.check("precision", [&] { return check_precision(gpu); });
}

/// Bytes read and written per second, beside the card's own copy.
void measure_kernels(Gpu& gpu, Rows& rows) {
  const Vendor vendor{gpu.where()};
  DeviceKernels& kernels = DeviceKernels::at(gpu.where());
  for (const std::size_t bytes : {std::size_t{64} << 20, std::size_t{256} << 20}) {
    const Buffers buffers{gpu, 9, bytes, 0};
    const auto rate_of = [&](std::size_t number, const std::function<void()>& start) {
      return static_cast<double>((number + 1) * bytes) / seconds_of(gpu, start) / 1e9;
    };
    const double copy =
        rate_of(1, [&] { vendor.copy(buffers[8], buffers[0], bytes, gpu.stream()); });
    rows.add(Row::ok(fmt::format("the card's copy of {}", readable(Bytes{bytes})),
                     fmt::format("{:.0f} GB/s read and written", copy)));
    for (const std::size_t number : {1U, 2U, 4U, 8U}) {
      std::vector<const void*> sources;
      for (std::size_t s = 0; s < number; ++s) sources.push_back(buffers[s]);
      void* const destination[] = {buffers[8]};
      const double rate = rate_of(number, [&] {
        kernels.reduce(DataType::f32, ReduceOp::sum, {destination, sources, bytes / sizeof(float)},
                       gpu.stream());
      });
      rows.add({fmt::format("sum of {} x {} by a kernel", number, readable(Bytes{bytes})),
                rate >= 0.9 * copy ? "ok" : "below 90 %",
                fmt::format("{:.0f} GB/s, {:.0f} % of the copy", rate, 100 * rate / copy)});
    }
  }
}

}  // namespace capstan::gpu_check
