// SPDX-License-Identifier: Apache-2.0

// The same calls by NVIDIA's NCCL, where it is installed, in one run. It takes several ranks on one
// GPU since version 2.30, if NCCL_MULTI_RANK_GPU_ENABLE is 1.

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "tests/devices/gpu_check/check.hpp"

namespace capstan::gpu_check {
namespace {

/// The part of NCCL's interface that the comparison uses, as its ABI has it.
class Nccl {
 public:
  struct Id {
    char bytes[128];
  };
  static constexpr int f32 = 7, sum = 0;

  /// CAPSTAN_CHECK_NCCL names another file than libnccl.so.2.
  Nccl() {
    ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 0);
    const char* const file = std::getenv("CAPSTAN_CHECK_NCCL");
    library_ = ::dlopen(file ? file : "libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library_) throw std::runtime_error("libnccl.so.2 is not installed");
    call("ncclGetVersion", &version_);
    if (version_ < 23000)
      throw std::runtime_error(
          fmt::format("libnccl.so.2 is of version {}: several ranks on a GPU need 2.30", version_));
  }

  int version() const { return version_; }
  Id id() const {
    Id made{};
    call("ncclGetUniqueId", &made);
    return made;
  }
  template <class... Arguments>
  void call(const char* name, Arguments... arguments) const {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(::dlsym(library_, name));
    if (!function) throw std::runtime_error(fmt::format("libnccl.so.2 lacks {}", name));
    if (const int error = function(arguments...))
      throw std::runtime_error(fmt::format("{} failed with {}", name, error));
  }

 private:
  void* library_ = nullptr;
  int version_ = 0;
};

constexpr std::size_t sizes[] = {8,       1 << 10, 32 << 10, 256 << 10,
                                 1 << 20, 4 << 20, 16 << 20, 256 << 20};

/// The least time of a call in a row of them, in microseconds, of a few rounds.
double time_of(Communicator& world, perf::DeviceCalls& calls, std::size_t bytes,
               const std::function<void()>& start) {
  const int number = bytes <= 1 << 20 ? 200 : bytes <= 16 << 20 ? 50 : 10;
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    world.barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < number; ++i) start();
    calls.finish();
    world.barrier();
    times.push_back(seconds_since(begin) * 1e6 / number);
  }
  return median(times);
}

void compare(const Nccl& nccl, const std::string& vendor, int ranks, Rows& rows) {
  struct Times {
    double capstan = 0, nccl = 0;
    std::string way{};
  };
  std::vector<Times> times(std::size(sizes));
  const Nccl::Id id = nccl.id();
  const auto trouble = on_ranks(ranks, bounded_settings(), [&](Communicator& world) {
    perf::DeviceCalls calls{world, vendor, 0};
    const auto input = calls.allocate(sizes[std::size(sizes) - 1]),
               output = calls.allocate(sizes[std::size(sizes) - 1]);
    void* communicator = nullptr;
    at_place(calls.where(), "joining NCCL", [&](DeviceDriver&) {
      nccl.call("ncclCommInitRank", &communicator, ranks, id, world.rank());
      return 0;
    });
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      const std::size_t count = sizes[i] / sizeof(float);
      const Request request = request::of(
          Collective::all_reduce, std::span{reinterpret_cast<const float*>(input.get()), count},
          std::span{reinterpret_cast<float*>(output.get()), count});
      const auto ours = [&] { calls.run(request); };
      const auto theirs = [&] {
        at_place(calls.where(), "calling NCCL", [&](DeviceDriver&) {
          nccl.call("ncclAllReduce", static_cast<const void*>(input.get()),
                    static_cast<void*>(output.get()), count, Nccl::f32, Nccl::sum, communicator,
                    calls.stream());
          return 0;
        });
      };
      ours();
      theirs();
      calls.finish();
      const double capstan = time_of(world, calls, sizes[i], ours);
      const double other = time_of(world, calls, sizes[i], theirs);
      if (world.rank() == 0) times[i] = {capstan, other, calls.explain(request)};
    }
    world.barrier();
    nccl.call("ncclCommDestroy", communicator);
    return std::string{};
  });
  if (!trouble.empty())
    return rows.add(Row::failed(fmt::format("beside NCCL, {} ranks", ranks), trouble));
  for (std::size_t i = 0; i < std::size(sizes); ++i)
    rows.add({fmt::format("all_reduce of {}, {} ranks", readable(Bytes{sizes[i]}), ranks),
              times[i].capstan <= times[i].nccl ? "ok" : "slower",
              fmt::format("{:.1f} us, NCCL {} {:.1f} us: {:.2f} times as fast; {}",
                          times[i].capstan, nccl.version(), times[i].nccl,
                          times[i].nccl / times[i].capstan, times[i].way)});
}

}  // namespace

void compare_with_nccl(const std::string& self) {
  for (const int ranks : {2, 4, 8}) {
    std::fflush(stdout);
    const int status =
        std::system(fmt::format("timeout -s KILL 40 {} --process nccl{}", self, ranks).c_str());
    if (status != 0)
      fmt::print("{:<44} {:<10} it did not end, or was killed ({})\n",
                 fmt::format("beside NCCL, {} ranks", ranks), "left out", status);
  }
}

int compare_with_nccl_here(int ranks) {
  Rows rows;
  take_many_queues();
  try {
    Gpu gpu;
    // Its kernels hang where those of all ranks do not find room side by side: on an H100 with all
    // blocks that four ranks take by themselves.
    ::setenv("NCCL_MAX_CTAS", ranks == 2 ? "64" : ranks == 4 ? "16" : "8", 0);
    compare(Nccl{}, vendor_of(gpu), ranks, rows);
  } catch (const std::exception& error) {
    rows.add({fmt::format("beside NCCL, {} ranks", ranks), "left out", error.what()});
  }
  return 0;
}

}  // namespace capstan::gpu_check
