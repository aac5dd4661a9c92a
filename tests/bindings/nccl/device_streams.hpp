// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/bindings/nccl/ranks.hpp"
#include "tests/devices/device_array.hpp"

/// NCCL's calls in streams of a driver of CUDA: the stand-in of the tests, whose streams run on a
/// thread of its own, in random order and a while later. The run-time library is none, as in
/// programs that have it linked into them.
namespace capstan::nccl_streams {

inline constexpr int p = 3;
inline constexpr std::size_t n = 1000;
inline const auto legacy_stream = reinterpret_cast<cudaStream_t>(1);
inline const auto thread_stream = reinterpret_cast<cudaStream_t>(2);

/// Makes a device's context current for this thread.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    void* context = nullptr;
    driver_function<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device);
    driver_function<int(void*)>("cuCtxPushCurrent_v2")(context);
  }
  OnDevice(const OnDevice&) = delete;
  ~OnDevice() {
    void* context = nullptr;
    driver_function<int(void**)>("cuCtxPopCurrent_v2")(&context);
  }
};

/// A stream of device 0, or a default one of any, and kernels in it.
class Stream {
 public:
  Stream() {
    const OnDevice here{0};
    void* made = nullptr;
    driver_function<int(void**, unsigned)>("cuStreamCreate")(&made, 1);
    handle_ = static_cast<cudaStream_t>(made);
  }
  explicit Stream(cudaStream_t handle, int device = 0) : handle_(handle), device_(device) {}
  cudaStream_t get() const { return handle_; }

  void launch(std::function<void()> body) const {
    driver_function<int(void*, void (*)(void*), void*)>("fake_launch")(
        actual(),
        [](void* body_) {
          const std::unique_ptr<std::function<void()>> owned{
              static_cast<std::function<void()>*>(body_)};
          (*owned)();
        },
        new std::function<void()>{std::move(body)});
  }
  /// Launches again what was launched here while streams were captured.
  void replay() const { driver_function<void(void*)>("fake_replay")(actual()); }
  void wait() const { EXPECT_EQ(driver_function<int(void*)>("fake_synchronize")(actual()), 0); }

 private:
  void* actual() const {
    const OnDevice here{device_};
    return driver_function<void*(void*)>("fake_stream")(handle_);
  }
  cudaStream_t handle_ = nullptr;
  int device_ = 0;
};

/// A kernel that waits until the program lets it continue: a minute at most.
class Gate {
 public:
  void hold(const Stream& stream) {
    stream.launch([opened = opened_] { opened.wait_for(std::chrono::minutes{1}); });
  }
  void open() { open_.set_value(); }

 private:
  std::promise<void> open_;
  std::shared_future<void> opened_ = open_.get_future().share();
};

class Array : public DeviceArray<float> {
 public:
  explicit Array(float value, std::size_t count = n, Where where = Where::device)
      : DeviceArray(std::vector<float>(count, value), where), count_(count) {}
  float* get() const { return span().data(); }
  /// For kernels.
  float* data() const {
    return static_cast<float*>(driver_function<void*(const void*)>("fake_data")(get()));
  }
  void fill(float value) const { std::fill_n(data(), count_, value); }
  bool is(float value) const { return values() == std::vector<float>(count_, value); }

 private:
  std::size_t count_;
};

inline void sum_in(const Stream& stream, const Array& from, const Array& to, ncclComm_t comm) {
  OK(ncclAllReduce(from.get(), to.get(), n, ncclFloat, ncclSum, comm, stream.get()));
}

/// By pinned memory, and by kernels where the library has any.
class NcclOnDevices : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    ::setenv("CAPSTAN_DEVICE_EXECUTOR", GetParam(), 1);
    ::setenv("CAPSTAN_TIMEOUT", "60", 1);
    load_driver();
    driver_knob("multiprocessors", 60 - driver_knob("multiprocessors"));
    kernels_before_ = driver_knob("kernels");
  }
  /// Communicators that have been destroyed may still be at it.
  void TearDown() override {
    const auto late = std::chrono::steady_clock::now() + std::chrono::minutes{1};
    while (driver_knob("depth") != 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), late) << "a context is still current";
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }

  static void on_ranks(const std::function<void(ncclComm_t, int)>& body) {
    capstan::on_ranks(p, body);
  }
  /// A world that this thread drives.
  static std::array<ncclComm_t, p> all_ranks() {
    std::array<ncclComm_t, p> comms{};
    EXPECT_EQ(ncclCommInitAll(comms.data(), p, nullptr), ncclSuccess);
    return comms;
  }
  /// One for each rank.
  static std::vector<std::unique_ptr<Array>> arrays(float value) {
    std::vector<std::unique_ptr<Array>> all;
    for (int rank = 0; rank < p; ++rank) all.push_back(std::make_unique<Array>(value));
    return all;
  }
  static void end(const std::array<ncclComm_t, p>& comms) {
    for (ncclComm_t comm : comms) OK(ncclCommDestroy(comm));
  }
  int kernels() const { return driver_knob("kernels") - kernels_before_; }
  static bool has_kernels() { return CAPSTAN_HAS_KERNELS != 0 && std::string{GetParam()} == "1"; }

 private:
  int kernels_before_ = 0;
};

}  // namespace capstan::nccl_streams
