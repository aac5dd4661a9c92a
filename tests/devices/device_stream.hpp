// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "capstan/async/streams.hpp"
#include "core/platform/device/device_memory.hpp"
#include "tests/devices/device_array.hpp"

namespace capstan {

/// A stream of the program, and kernels in it.
class Stream {
 public:
  explicit Stream(const void* memory) {
    const auto where = find_device_buffer(memory).value();
    int former = 0;
    if (where.driver->enter(where.place, former) != 0 || where.driver->make_stream(stream_) != 0)
      throw std::runtime_error("no stream");
    where.driver->leave(former);
  }
  void* get() const { return stream_; }

  /// The body runs when its turn has come, and may access memory by on_device_data().
  void launch(std::function<void()> body) {
    static const auto launch_ = driver_function<int(void*, void (*)(void*), void*)>("fake_launch");
    launch_(
        stream_,
        [](void* body_) {
          const std::unique_ptr<std::function<void()>> owned{
              static_cast<std::function<void()>*>(body_)};
          (*owned)();
        },
        new std::function<void()>{std::move(body)});
  }
  /// Launches again what was launched here while streams were captured.
  void replay() {
    static const auto replay_ = driver_function<void(void*)>("fake_replay");
    replay_(stream_);
  }
  /// 0, or the error of the stream.
  int synchronize() {
    static const auto wait = driver_function<int(void*)>("fake_synchronize");
    return wait(stream_);
  }
  /// The same, while the driver answers nobody.
  int synchronize_alone() {
    static const auto wait = driver_function<int(void*)>("fake_synchronize_alone");
    return wait(stream_);
  }

 private:
  void* stream_ = nullptr;
};

template <class T>
T* on_device_data(const DeviceArray<T>& array) {
  static const auto data = driver_function<void*(const void*)>("fake_data");
  return static_cast<T*>(data(array.span().data()));
}

/// Kernels write the input in a stream before each call, and take the output after it, on 3 ranks.
inline void expect_order_of_a_stream(StreamCollectives& streams, std::size_t n) {
  const DeviceArray<float> input{std::vector<float>(n, -1)}, sum{std::vector<float>(n, -1)};
  Stream stream{input.span().data()};
  std::vector<float> seen;
  for (int round = 0; round < 10; ++round) {
    stream.launch([&, round] {
      std::this_thread::sleep_for(std::chrono::microseconds{200});
      std::fill_n(on_device_data(input), n, static_cast<float>(round + streams.rank()));
    });
    streams.on(stream.get()).all_reduce(input.span(), sum.span());
    stream.launch([&] {
      seen.push_back(on_device_data(sum)[0]);
      seen.push_back(on_device_data(sum)[n - 1]);
    });
  }
  EXPECT_EQ(stream.synchronize(), 0);
  ASSERT_EQ(seen.size(), 20U);
  for (std::size_t i = 0; i < seen.size(); ++i)
    EXPECT_EQ(seen[i], static_cast<float>(3 * (i / 2) + 3)) << "round " << i / 2;
}

}  // namespace capstan
