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

class OnDevicesEnds : public OnDevices {};

/// The text of the error of a call, and that of later calls.
std::string error_of(const Work& work, StreamCollectives& streams, std::span<float> data) {
  std::string text;
  try {
    work.wait();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    text = error.what();
  }
  EXPECT_THROW(streams.on(nullptr).all_reduce(data), Error) << "for good";
  EXPECT_NE(streams.async_error(), nullptr);
  return text;
}

TEST_F(OnDevicesEnds, AnAbortEndsKernelsThatWait) {
  on_ranks(3, [](StreamCollectives& streams) {
    const DeviceArray<float> data{std::vector<float>(5000, 1)};
    Stream stream{data.span().data()};
    streams.on(stream.get()).all_reduce(data.span());
    EXPECT_EQ(stream.synchronize(), 0);
    if (streams.rank() == 1) {
      std::this_thread::sleep_for(10ms);
      return streams.abort("had enough");
    }
    const Work work = streams.on(stream.get()).start_all_reduce(data.span());
    EXPECT_THAT(error_of(work, streams, data.span()), HasSubstr("had enough"));
    EXPECT_EQ(stream.synchronize(), 0) << "the stream goes on";
  });
}

TEST_F(OnDevicesEnds, ACallThatFailsThroughPinnedMemoryEndsKernelsThatWait) {
  on_ranks(2, [](StreamCollectives& streams) {
    const DeviceArray<float> data{std::vector<float>(100, 1)};
    Stream stream{data.span().data()};
    streams.on(stream.get()).all_reduce(data.span());
    EXPECT_EQ(stream.synchronize(), 0);
    if (streams.rank() == 0) {
      const Work work = streams.on(stream.get()).start_all_reduce(data.span());
      static_cast<void>(error_of(work, streams, data.span()));
      return;
    }
    set_knob("fail_to_host", 1);
    const Work work = streams.on(stream.get()).start_exchange({Message::to(0, data.span())});
    static_cast<void>(error_of(work, streams, data.span()));
  });
  set_knob("fail_to_host", 0);
}

/// Its peers notice it by themselves.
TEST_F(OnDevicesEnds, ARankThatGoesEndsKernelsThatWait) {
  std::atomic<int> ended = 0;
  on_threads(3, bounded_settings(), [&](Communicator& world) {
    StreamCollectives streams{world};
    const DeviceArray<float> data{std::vector<float>(5000, 1)};
    streams.on(nullptr).all_reduce(data.span());
    if (streams.rank() == 2) return;  // its destructor waits for the others, for a while
    Stream stream{data.span().data()};
    const Work work = streams.on(stream.get()).start_all_reduce(data.span());
    EXPECT_THAT(error_of(work, streams, data.span()), HasSubstr("rank 2"));
    EXPECT_EQ(stream.synchronize(), 0);
    ++ended;
  });
  EXPECT_EQ(ended, 2);
}

TEST_F(OnDevicesEnds, KernelsThatWaitForTooLongAreEnded) {
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
        const Work work = streams.on(nullptr).start_all_reduce(data.span());
        EXPECT_THAT(error_of(work, streams, data.span()), HasSubstr("has waited for"));
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
  on_ranks(2, [](StreamCollectives& streams) {
    const DeviceArray<float> data{std::vector<float>(100, 1)};
    streams.on(nullptr).all_reduce(data.span());
    if (streams.rank() == 0) {
      const Work work = streams.on(nullptr).start_all_reduce(data.span());
      return static_cast<void>(error_of(work, streams, data.span()));
    }
    std::this_thread::sleep_for(5ms);
    set_knob("fail_launch", 1);
    EXPECT_THROW(streams.on(nullptr).all_reduce(data.span()), SystemError);
    set_knob("fail_launch", 0);
  });
}

}  // namespace
}  // namespace capstan
