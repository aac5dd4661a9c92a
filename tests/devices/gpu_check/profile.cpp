// SPDX-License-Identifier: Apache-2.0

// Records of profilers about calls in streams: the device times those that its kernels run.

#include <fmt/format.h>

#include "capstan/observe/profiler.hpp"
#include "tests/devices/gpu_check/check.hpp"

namespace capstan::gpu_check {
namespace {

constexpr std::size_t call_bytes = 16 << 20;
constexpr int calls_recorded = 20;

/// Calls one after the other: together they last no longer than the host has waited for them.
std::string trouble_with_profile(Communicator& world, const std::string& vendor,
                                 std::string_view way, std::string& detail) {
  perf::DeviceCalls calls{world, vendor, 0};
  const auto memory = calls.allocate(call_bytes);
  const Request request = request::in_place(
      Collective::all_reduce,
      std::span{reinterpret_cast<float*>(memory.get()), call_bytes / sizeof(float)});
  calls.run(request);
  calls.finish();
  world.barrier();
  Profiler profiler;
  calls.collectives().attach(profiler);
  const auto begin = Clock::now();
  for (int i = 0; i < calls_recorded; ++i) calls.run(request);
  calls.finish();
  const double waited = seconds_since(begin) * 1e6;
  while (!calls.collectives().is_idle()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  calls.collectives().detach_profiler();
  const auto recorded = profiler.profiles();
  if (recorded.size() != calls_recorded)
    return fmt::format("{} of {} calls are recorded", recorded.size(), calls_recorded);
  double lasted = 0;
  for (const OperationProfile& each : recorded) {
    const double time = std::chrono::duration<double, std::micro>(each.duration).count();
    if (time <= 0 || each.failed || each.bytes != Bytes{call_bytes} ||
        each.algorithm.rfind(way, 0) != 0)
      return fmt::format("recorded is {:.1f} us of {}, failed: {}", time, each.algorithm,
                         each.failed);
    lasted += time;
  }
  detail = fmt::format("{} calls: {:.0f} us each by the device, {:.0f} as the host waits; {}",
                       calls_recorded, lasted / calls_recorded, waited / calls_recorded,
                       recorded.front().algorithm);
  return way.starts_with("device") && lasted > 1.1 * waited ? "longer than waited for: " + detail
                                                            : "";
}

}  // namespace

void check_profile(Gpu& gpu, Rows& rows) {
  for (const bool on_device : {true, false}) {
    Settings settings = bounded_settings();
    settings.device_executor = on_device;
    std::vector<std::string> details(4);
    const auto trouble = on_ranks(4, settings, [&](Communicator& world) {
      return trouble_with_profile(world, vendor_of(gpu),
                                  on_device ? "device executor: " : "pinned staging: ",
                                  details[static_cast<std::size_t>(world.rank())]);
    });
    rows.add(Row::of("profiler, 4 ranks", trouble, details[0]));
  }
}

}  // namespace capstan::gpu_check
