// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "capstan/communicator.hpp"
#include "core/platform/memory/registration/address_range.hpp"
#include "perf/measure/device_calls.hpp"
#include "tests/devices/gpu.hpp"

/// Checks on a GPU: each makes rows of the table that the program ends with.
namespace capstan::gpu_check {

using Clock = std::chrono::steady_clock;

struct Row {
  std::string name, result, detail;

  static Row ok(std::string name, std::string detail) {
    return {std::move(name), "ok", std::move(detail)};
  }
  static Row failed(std::string name, std::string detail) {
    return {std::move(name), "FAILED", std::move(detail)};
  }
  /// ok if there is no trouble.
  static Row of(std::string name, const std::string& trouble, std::string detail) {
    return trouble.empty() ? ok(std::move(name), std::move(detail))
                           : failed(std::move(name), trouble);
  }
};
/// The table: prints each row when it is there, as the program may be ended before it is whole.
class Rows {
 public:
  void add(const Row& row);
  /// Adds what `check` returns; an exception is a failed row of that name.
  void check(const std::string& name, const std::function<Row()>& check);
  int failed() const { return failed_; }

 private:
  int failed_ = 0;
};

/// "cuda" or "hip", as options of programs have it.
std::string vendor_of(const Gpu& gpu);

/// For ranks that are threads and share the GPU: a kernel that waits must not hold up another
/// rank's in the same queue. Before the driver is loaded. Ranks in processes have queues of their
/// own, and under MPS there are not as many for each.
void take_many_queues();

/// Settings under which a call that hangs ends before the program's own limit.
Settings bounded_settings();

/// Runs `body(communicator)` on one thread for each rank; returns the first text that is not empty,
/// with its rank. What a body throws is its text.
std::string on_ranks(int ranks, const Settings& settings,
                     const std::function<std::string(Communicator&)>& body);
/// The text that `body` throws, or returns.
std::string text_of(const std::function<std::string()>& body);

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
inline double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

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

// kernels.cpp
void check_kernels(Gpu& gpu, Rows& rows);
void measure_kernels(Gpu& gpu, Rows& rows);

// order.cpp
void check_order(Gpu& gpu, bool kernels_meet, Rows& rows);
void check_graphs(Gpu& gpu, Rows& rows);

// ranks.cpp

/// Calls of the collectives and messages of up to so many bytes, with test data; empty: all right.
/// All ranks call it.
std::string trouble_with_calls(Communicator& world, const std::string& vendor, Bytes longest);
void check_ranks(Gpu& gpu, Bytes longest, Rows& rows);
void measure_small_calls(Gpu& gpu, Rows& rows);

// profile.cpp
void check_profile(Gpu& gpu, Rows& rows);

// ends.cpp
void check_ends(Gpu& gpu, Rows& rows);

// processes.cpp

/// Ranks in processes, by `capstan run` of the program at this path.
void check_processes(const std::string& launcher, const std::string& self, Rows& rows);
/// Runs the task of such a process; returns its exit code.
int run_process(const std::string& task);

// nccl.cpp

/// Prints its rows as they come. Ranks hang for good where NCCL does, so it gets a process.
void compare_with_nccl(const std::string& self);
int compare_with_nccl_here(int ranks);

}  // namespace capstan::gpu_check
