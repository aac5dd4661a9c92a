// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "capstan/async/streams.hpp"
#include "kernels/device/images.hpp"
#include "tests/devices/device_array.hpp"
#include "tests/devices/device_stream.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {

/// Collectives that run by kernels.
inline constexpr Collective on_devices[] = {
    Collective::broadcast,      Collective::reduce, Collective::all_reduce, Collective::all_gather,
    Collective::reduce_scatter, Collective::gather, Collective::scatter,    Collective::all_to_all,
    Collective::scan,           Collective::exscan};

/// Calls in streams that run by kernels. Those of the stand-in run on threads, beside each other.
class OnDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* queues : {"CUDA_DEVICE_MAX_CONNECTIONS", "GPU_MAX_HW_QUEUES"})
      ::setenv(queues, "24", 1);
    static constexpr std::byte image[1]{};
    kernels::device::stand_in_for_missing_images(image);
    load_driver();
    look_for_devices();
    set_knob("multiprocessors", 30);  // and two
    before_ = counters();
  }
  void TearDown() override {
    set_knob("multiprocessors", 0);
    EXPECT_EQ(driver_knob("depth"), 0) << "a context or a device is still current";
  }

  static void set_knob(const std::string& name, int value) {
    driver_knob(name, value - driver_knob(name));
  }
  /// Calls on all ranks, each a thread. The last one to end takes the others' events with it.
  template <class Body>
  static void on_ranks(int ranks, const Body& body, const Settings& settings = bounded_settings()) {
    on_threads(ranks, settings, [&](Communicator& world) {
      StreamCollectives streams{world};
      body(streams);
    });
  }

  int launches() const { return driver_knob("kernels") - before_.kernels; }
  int copies_to_host() const { return driver_knob("to_host") - before_.to_host; }
  int events() const { return driver_knob("events") - before_.events; }

  /// How such a call goes.
  static std::string way_of(StreamCollectives& streams, const DeviceArray<float>& data) {
    return streams.explain(request::in_place(Collective::all_reduce, data.span()));
  }
  /// How a call goes that has just been made, with a right result.
  static std::string way_of_a_call(StreamCollectives& streams, Where where = Where::device) {
    const DeviceArray<float> data{{1, 2, 3}, where};
    streams.on(nullptr).all_reduce(data.span());
    const auto n = static_cast<float>(streams.size());
    EXPECT_EQ(data.values(), (std::vector<float>{n, 2 * n, 3 * n}));
    return way_of(streams, data);
  }

 private:
  struct Counters {
    int kernels, to_host, events;
  };
  static Counters counters() {
    return {driver_knob("kernels"), driver_knob("to_host"), driver_knob("events")};
  }
  Counters before_{};
};

}  // namespace capstan
