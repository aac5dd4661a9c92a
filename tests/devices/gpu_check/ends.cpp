// SPDX-License-Identifier: Apache-2.0

// How calls end that cannot continue: in bounded time, with an error on every rank.

#include <fmt/format.h>

#include <cstring>
#include <semaphore>

#include "capstan/error.hpp"
#include "tests/devices/gpu_check/check.hpp"

namespace capstan::gpu_check {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t length = 5000;

struct Data {
  std::shared_ptr<std::byte> memory;
  std::span<float> span;

  explicit Data(perf::DeviceCalls& calls)
      : memory(calls.allocate(length * sizeof(float))),
        span(reinterpret_cast<float*>(memory.get()), length) {}
};

/// The error of a call that waits for a rank that does not come; empty: none.
std::string error_of_call(perf::DeviceCalls& calls, std::span<float> data) {
  return text_of([&] {
    calls.run(request::in_place(Collective::all_reduce, data));
    calls.finish();
    return std::string{};
  });
}

/// Rank 1 does `instead` of a call that the kernels of the others wait in. Each of these must get
/// an error that contains `expected`, and the stream must continue.
Row check_end(const std::string& name, const std::string& vendor, const Settings& settings,
              const std::string& expected, const std::function<void(perf::DeviceCalls&)>& instead) {
  constexpr int ranks = 4;
  std::counting_semaphore<ranks> ended{0};
  std::vector<std::string> errors(ranks);
  const auto trouble = on_ranks(ranks, settings, [&](Communicator& world) -> std::string {
    perf::DeviceCalls calls{world, vendor, 0};
    Data data{calls};
    calls.run(request::in_place(Collective::all_reduce, data.span));
    calls.finish();
    if (!calls.explain(request::in_place(Collective::all_reduce, data.span))
             .starts_with("device executor"))
      return "the calls do not run by kernels";
    if (world.rank() == 1) {
      instead(calls);
      for (int i = 1; i < ranks; ++i)
        if (!ended.try_acquire_for(60s)) return "the others do not end";
      return "";
    }
    const std::string error = error_of_call(calls, data.span);
    errors[static_cast<std::size_t>(world.rank())] = error;
    ended.release();
    return error.find(expected) != std::string::npos ? "" : "the error is: " + error;
  });
  return Row::of(name, trouble, errors[0]);
}

/// A rank whose device memory is used up keeps all from kernels; calls continue, staged.
Row check_out_of_memory(Gpu& gpu) {
  std::vector<std::byte*> taken;
  const auto take_all = [&] {
    for (std::size_t bytes = std::size_t{16} << 30; bytes >= 1 << 20;) {
      try {
        taken.push_back(gpu.allocate(bytes));
      } catch (const Error&) {
        bytes /= 2;
      }
    }
  };
  std::string detail;
  const auto trouble = on_ranks(2, bounded_settings(), [&](Communicator& world) -> std::string {
    perf::DeviceCalls calls{world, vendor_of(gpu), 0};
    Data data{calls};
    world.barrier();
    if (world.rank() == 0) take_all();
    world.barrier();
    std::vector<float> values(length, 1);
    calls.write(data.memory.get(), std::as_bytes(std::span{values}));
    const Request request = request::in_place(Collective::all_reduce, data.span);
    calls.run(request);
    calls.finish();
    calls.read(std::as_writable_bytes(std::span{values}), data.memory.get());
    if (values[0] != 2 || values[length - 1] != 2) return "the sum is wrong";
    const std::string way = calls.explain(request);
    if (world.rank() == 0) detail = way;
    const std::string more = text_of([&] { return calls.allocate(std::size_t{1} << 40), ""; });
    if (more.empty()) return "1 TiB was allocated";
    return way.starts_with("pinned staging: ") ? "" : "by " + way;
  });
  for (std::byte* const memory : taken) gpu.release(memory);
  return Row::of("device memory used up", trouble, detail);
}

/// Refused on the rank that passes it; the others end with its abort.
Row check_freed_pointer(Gpu& gpu) {
  std::string detail;
  const auto trouble = on_ranks(2, bounded_settings(), [&](Communicator& world) -> std::string {
    perf::DeviceCalls calls{world, vendor_of(gpu), 0};
    Data data{calls};
    calls.run(request::in_place(Collective::all_reduce, data.span));
    calls.finish();
    std::byte* const freed = gpu.allocate(std::size_t{512} << 20);
    gpu.release(freed);  // waits for all kernels of the device
    world.barrier();
    if (world.rank() == 0) {
      const std::string error = error_of_call(calls, data.span);
      return error.find("gave a freed pointer") != std::string::npos ? "" : "the error: " + error;
    }
    detail = error_of_call(calls, {reinterpret_cast<float*>(freed), length});
    calls.collectives().abort("rank 1 gave a freed pointer");
    return detail.find("host memory") != std::string::npos ? "" : "the error: " + detail;
  });
  return Row::of("a freed pointer", trouble, detail);
}

/// A thread that frees memory waits for all kernels of the device, also for one that waits for the
/// rank of that very thread. The kernel's time-out is the way out.
Row check_free_beside_kernels(Gpu& gpu, const Settings& settings) {
  std::string detail;
  const auto trouble = on_ranks(2, settings, [&](Communicator& world) -> std::string {
    perf::DeviceCalls calls{world, vendor_of(gpu), 0};
    Data data{calls};
    calls.run(request::in_place(Collective::all_reduce, data.span));
    calls.finish();
    std::byte* const memory = gpu.allocate(std::size_t{512} << 20);
    world.barrier();
    if (world.rank() == 1) {
      std::this_thread::sleep_for(50ms);  // until the kernel of rank 0 waits, most likely
      gpu.release(memory);
      return "";
    }
    detail = error_of_call(calls, data.span);
    gpu.release(memory);
    return detail.find("waited") != std::string::npos ? "" : "the error: " + detail;
  });
  return Row::of("memory freed while kernels wait", trouble, detail);
}

}  // namespace

void check_ends(Gpu& gpu, Rows& rows) {
  const std::string vendor = vendor_of(gpu);
  Settings patient = bounded_settings(), hasty = patient;
  patient.timeout = 60s;
  hasty.timeout = 500ms;
  const auto nothing = [](perf::DeviceCalls&) {};
  const auto abort = [](perf::DeviceCalls& calls) { calls.collectives().abort("had enough"); };
  rows.check("abort", [&] {
    return check_end("abort while kernels wait", vendor, patient, "had enough", abort);
  });
  rows.check("time-out", [&] {
    return check_end("a rank that does not come", vendor, hasty, "waited", nothing);
  });
  rows.check("memory", [&] { return check_out_of_memory(gpu); });
  rows.check("pointer", [&] { return check_freed_pointer(gpu); });
  rows.check("free", [&] { return check_free_beside_kernels(gpu, hasty); });
}

}  // namespace capstan::gpu_check
