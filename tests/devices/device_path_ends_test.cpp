// SPDX-License-Identifier: Apache-2.0

// How calls by the device executor end where a rank fails, aborts or goes: in bounded time, with
// an error on all ranks.

#include <atomic>
#include <thread>

#include "capstan/error.hpp"
#include "tests/devices/device_path.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class OnDevicesEnds : public OnDevices {
 protected:
  void SetUp() override {
    OnDevices::SetUp();
    set_knob("ended_early", 1);
  }
  void TearDown() override {
    set_knob("ended_early", 0);
    OnDevices::TearDown();
  }
};

/// The text of the error of a call, at once or when it ends. Later calls have one, too.
template <class Start>
std::string error_of(StreamCollectives& streams, std::span<float> data, const Start& start) {
  std::string text;
  try {
    start().wait();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_THROW(streams.on(nullptr).all_reduce(data), Error) << "for good";
  EXPECT_NE(streams.async_error(), nullptr);
  return text;
}
std::string error_of_call(StreamCollectives& streams, std::span<float> data, void* stream) {
  return error_of(streams, data, [&] { return streams.on(stream).start_all_reduce(data); });
}

TEST_F(OnDevicesEnds, AnAbortEndsCallsThatWait) {
  on_ranks(3, [](StreamCollectives& streams) {
    const DeviceArray<float> data{std::vector<float>(5000, 1)};
    Stream stream{data.span().data()};
    streams.on(stream.get()).all_reduce(data.span());
    EXPECT_EQ(stream.synchronize(), 0);
    if (streams.rank() == 1) {
      std::this_thread::sleep_for(10ms);
      return streams.abort("had enough");
    }
    EXPECT_THAT(error_of_call(streams, data.span(), stream.get()), HasSubstr("had enough"));
    EXPECT_EQ(stream.synchronize(), 0) << "the stream goes on";
  });
}

TEST_F(OnDevicesEnds, ACallThatFailsThroughPinnedMemoryEndsThoseThatWait) {
  on_ranks(2, [](StreamCollectives& streams) {
    const DeviceArray<float> data{std::vector<float>(100, 1)};
    Stream stream{data.span().data()};
    streams.on(stream.get()).all_reduce(data.span());
    EXPECT_EQ(stream.synchronize(), 0);
    if (streams.rank() == 0) {
      EXPECT_NE(error_of_call(streams, data.span(), stream.get()), "");
      return;
    }
    set_knob("fail_to_host", 1);
    const auto send = [&] {
      return streams.on(stream.get()).start_exchange({Message::to(0, data.span())});
    };
    EXPECT_THAT(error_of(streams, data.span(), send), HasSubstr("launch failure"));
  });
  set_knob("fail_to_host", 0);
}

/// Its peers notice it by themselves.
TEST_F(OnDevicesEnds, ARankThatGoesEndsCallsThatWait) {
  std::atomic<int> ended = 0;
  on_threads(3, bounded_settings(), [&](Communicator& world) {
    StreamCollectives streams{world};
    const DeviceArray<float> data{std::vector<float>(5000, 1)};
    streams.on(nullptr).all_reduce(data.span());
    if (streams.rank() == 2) return;  // its destructor waits for the others, for a while
    Stream stream{data.span().data()};
    EXPECT_THAT(error_of_call(streams, data.span(), stream.get()), HasSubstr("rank 2"));
    EXPECT_EQ(stream.synchronize(), 0);
    ++ended;
    // The other one is to notice rank 2, not that this rank has gone because of it.
    for (int i = 0; i < 20'000 && ended < 2; ++i) std::this_thread::sleep_for(1ms);
  });
  EXPECT_EQ(ended, 2);
}

TEST_F(OnDevicesEnds, ACallThatWaitsForTooLongIsEnded) {
  Settings settings = bounded_settings();
  settings.timeout = 300ms;
  std::atomic<bool> over = false;
  on_ranks(
      2,
      [&](StreamCollectives& streams) {
        const DeviceArray<float> data{std::vector<float>(5000, 1)};
        streams.on(nullptr).all_reduce(data.span());
        if (streams.rank() == 1) {
          for (int i = 0; i < 20'000 && !over; ++i) std::this_thread::sleep_for(1ms);
          return;
        }
        EXPECT_THAT(error_of_call(streams, data.span(), nullptr), HasSubstr("waited"));
        over = true;
      },
      settings);
  EXPECT_TRUE(over);
}

TEST_F(OnDevicesEnds, RanksThatMakeDifferentCallsAreTold) {
  on_ranks(2, [](StreamCollectives& streams) {
    const DeviceArray<float> data{std::vector<float>(100, 1)};
    streams.on(nullptr).all_reduce(data.span());
    const auto part = data.span().first(streams.rank() == 0 ? 50 : 60);
    EXPECT_THROW(streams.on(nullptr).all_reduce(part), Mismatch);
  });
}

TEST_F(OnDevicesEnds, AFailedLaunchEndsTheGroup) {
  const int before = driver_knob("kernels");
  on_ranks(2, [before](StreamCollectives& streams) {
    const DeviceArray<float> data{std::vector<float>(100, 1)};
    streams.on(nullptr).all_reduce(data.span());
    if (streams.rank() == 0) {
      EXPECT_THAT(error_of_call(streams, data.span(), nullptr), HasSubstr("starting a kernel"));
      return;
    }
    const auto launched = [before] { return driver_knob("kernels") - before; };
    for (int i = 0; i < 20'000 && launched() < 3; ++i) std::this_thread::sleep_for(1ms);
    ASSERT_GE(launched(), 3) << "two of the first call, rank 0's of the second";
    set_knob("fail_launch", 1);
    EXPECT_THROW(streams.on(nullptr).all_reduce(data.span()), SystemError);
    set_knob("fail_launch", 0);
  });
}

}  // namespace
}  // namespace capstan
