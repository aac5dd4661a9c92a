// SPDX-License-Identifier: Apache-2.0

// How calls by the device executor end where a rank fails, aborts or goes: in bounded time, with
// an error on all ranks.

#include <atomic>
#include <functional>
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

/// The time-out is long enough for the call before it on a machine that is busy.
TEST_F(OnDevicesEnds, TheRankThatKeepsKernelsWaitingForTooLongIsNamed) {
  Settings settings = bounded_settings();
  settings.timeout = 2s;
  std::atomic<int> over = 0;
  on_ranks(
      3,
      [&](StreamCollectives& streams) {
        const DeviceArray<float> data{std::vector<float>(50, 1)};
        streams.on(nullptr).all_reduce(data.span());
        if (streams.rank() == 2) {
          for (int i = 0; i < 20'000 && over < 2; ++i) std::this_thread::sleep_for(1ms);
          return;
        }
        try {
          streams.on(nullptr).all_reduce(data.span());
          ADD_FAILURE() << "no error";
        } catch (const TimedOut& error) {
          EXPECT_THAT(error.what(),
                      ::testing::ContainsRegex(
                          "^rank 2.* runs no kernel for all_reduce.50 x f32, sum. by .* #2; "
                          "2 ranks wait for it, .*Rank [01] waited 2 s for rank 2 in the kernel"));
          ASSERT_EQ(error.culprits().size(), 1U) << error.what();
          EXPECT_EQ(error.culprits()[0].world_rank, Rank{2});
        }
        ++over;
      },
      settings);
  EXPECT_EQ(over, 2);
}

/// At the first call of a type and operation ranks agree.
TEST_F(OnDevicesEnds, RanksThatMakeDifferentCallsAreTold) {
  on_ranks(2, [](StreamCollectives& streams) {
    const DeviceArray<float> data{std::vector<float>(100, 1)};
    const auto part = data.span().first(streams.rank() == 0 ? 50 : 60);
    EXPECT_THROW(streams.on(nullptr).all_reduce(part), Mismatch);
  });
}

/// Other calls need no agreement, and are compared all the same. Kernels of different calls may
/// wait for each other or end.
TEST_F(OnDevicesEnds, RanksThatMakeDifferentCallsOfAKnownKernelAreTold) {
  using Call = std::function<void(StreamCollectives&, std::span<float>, bool)>;
  const Call of_other_counts = [](StreamCollectives& streams, std::span<float> data, bool other) {
    streams.on(nullptr).all_reduce(other ? data.first(60) : data);
  };
  const Call of_other_roots = [](StreamCollectives& streams, std::span<float> data, bool other) {
    streams.on(nullptr).broadcast(data, other ? 1 : 0);
  };
  for (const Call& call : {of_other_counts, of_other_roots})
    on_ranks(3, [&](StreamCollectives& streams) {
      const DeviceArray<float> data{std::vector<float>(5000, 1)};
      for (const bool other : {false, true}) call(streams, data.span(), other);
      streams.on(nullptr).barrier();
      try {
        call(streams, data.span(), streams.rank() == 1);
        for (int i = 0; i < 20'000; ++i) {  // the error follows a call that has ended
          if (const auto error = streams.async_error()) std::rethrow_exception(error);
          std::this_thread::sleep_for(1ms);
        }
        ADD_FAILURE() << "no error";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr("ranks disagree about call 3"));
      }
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
