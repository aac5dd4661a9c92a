// SPDX-License-Identifier: Apache-2.0

// Collectives in the order of streams. The stand-in's streams run on a thread of its own, in random
// order and a while later: what is not ordered by an event or a flag is seen too early.

#include "capstan/async/streams.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/devices/device_array.hpp"
#include "tests/devices/device_stream.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;

class InStreamOrder : public ::testing::Test {
 protected:
  void SetUp() override {
    load_driver();
    events_before_ = driver_knob("events");
  }
  void TearDown() override {
    EXPECT_EQ(driver_knob("depth"), 0) << "a context or a device is still current";
    EXPECT_EQ(driver_knob("events"), events_before_) << "events are released";
  }

  /// Calls go through pinned memory: those that run on devices have tests of their own.
  template <class Body>
  static void on_ranks(int ranks, const Body& body) {
    Settings settings = bounded_settings();
    settings.device_executor = false;
    on_threads(ranks, settings, [&](Communicator& world) {
      StreamCollectives streams{world};
      body(streams);
    });
  }

 private:
  int events_before_ = 0;
};

TEST_F(InStreamOrder, ACallBeginsAfterWhatIsInItsStreamAndComesBeforeWhatIsPutThere) {
  on_ranks(3, [](StreamCollectives& streams) { expect_order_of_a_stream(streams, 1000); });
}

TEST_F(InStreamOrder, ACallReturnsBeforeItsStreamGetsToIt) {
  on_ranks(2, [](StreamCollectives& streams) {
    const DeviceArray<std::int32_t> data{{1, 2, 3}};
    Stream stream{data.span().data()};
    std::atomic<bool> returned = false, in_time = false;
    stream.launch([&] {
      for (int i = 0; i < 20'000 && !returned; ++i) std::this_thread::sleep_for(1ms);
      in_time = returned.load();
    });
    Work work = streams.on(stream.get()).start_all_reduce(data.span());
    EXPECT_FALSE(work.has_ended());
    returned = true;
    work.wait();
    EXPECT_TRUE(in_time);
    EXPECT_THAT(data.values(), ::testing::ElementsAre(2, 4, 6));
    EXPECT_EQ(stream.synchronize(), 0);
  });
}

TEST_F(InStreamOrder, AllCollectivesRun) {
  on_ranks(3, [](StreamCollectives& streams) {
    const int me = streams.rank();
    const DeviceArray<std::int32_t> own{{me, me}}, all{std::vector<std::int32_t>(6, -1)};
    Stream stream{own.span().data()};
    auto ordered = streams.on(stream.get());
    ordered.all_gather(own.span(), all.span());
    ordered.all_to_all(all.span(), all.span());
    ordered.reduce_scatter(all.span(), own.span());
    ordered.broadcast(own.span(), 1);
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_THAT(own.values(), Each(3)) << "rank 1 has block 1 of 0 1 2 from each, added up";
  });
}

/// Around a ring, where every rank sends and receives at once, between kernels and beside a
/// collective.
TEST_F(InStreamOrder, MessagesTravelBetweenKernels) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{100'000}})
    on_ranks(3, [n](StreamCollectives& streams) {
      const int me = streams.rank(), size = streams.size();
      const DeviceArray<float> own{std::vector<float>(n, -1)}, got{std::vector<float>(n, -1)};
      Stream stream{own.span().data()};
      auto ordered = streams.on(stream.get());
      std::vector<float> seen;
      for (int round = 0; round < 5; ++round) {
        stream.launch([&, round] {
          std::this_thread::sleep_for(200us);
          std::fill_n(on_device_data(own), n, static_cast<float>(10 * round + me));
        });
        ordered.exchange({Message::to((me + 1) % size, own.span()),
                          Message::from((me + size - 1) % size, got.span())});
        ordered.all_reduce(own.span());
        stream.launch([&] { seen.push_back(on_device_data(got)[n - 1]); });
      }
      EXPECT_EQ(stream.synchronize(), 0);
      ASSERT_EQ(seen.size(), 5U);
      for (std::size_t round = 0; round < seen.size(); ++round)
        EXPECT_EQ(seen[round],
                  static_cast<float>(10 * static_cast<int>(round) + (me + size - 1) % size));
    });
}

TEST_F(InStreamOrder, OneRankSendsAndAnotherReceives) {
  on_ranks(2, [](StreamCollectives& streams) {
    const DeviceArray<std::int32_t> data{{streams.rank() == 0 ? 7 : -1, 8}};
    Stream stream{data.span().data()};
    auto ordered = streams.on(stream.get());
    if (streams.rank() == 0)
      ordered.send(data.span(), 1, 5);
    else
      ordered.receive(data.span(), 0, 5);
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_THAT(data.values(), ::testing::ElementsAre(7, 8));
    const DeviceArray<std::int32_t> back{{-1, -1}};
    Work work = ordered.start_exchange({Message::to(1 - streams.rank(), data.span()),
                                        Message::from(1 - streams.rank(), back.span())});
    work.wait();
    EXPECT_THAT(back.values(), ::testing::ElementsAre(7, 8));
  });
}

TEST_F(InStreamOrder, WithoutAStreamACallBlocks) {
  on_ranks(2, [](StreamCollectives& streams) {
    const DeviceArray<double> data{{1.5, 2.5}};
    streams.on(nullptr).all_reduce(data.span());
    EXPECT_THAT(data.values(), ::testing::ElementsAre(3, 5));
    streams.on(nullptr).barrier();
  });
}

TEST_F(InStreamOrder, LongCallsGoInPieces) {
  constexpr std::size_t n = (20 << 20) / sizeof(float);
  const int before = driver_knob("to_host");
  on_ranks(2, [](StreamCollectives& streams) {
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i % 1000);
    const DeviceArray<float> data{values};
    Stream stream{data.span().data()};
    streams.on(stream.get()).all_reduce(data.span());
    EXPECT_EQ(stream.synchronize(), 0);
    const auto sums = data.values();
    for (std::size_t i = 0; i < n; i += 997) ASSERT_EQ(sums[i], 2 * values[i]) << i;
  });
  EXPECT_EQ(driver_knob("to_host") - before, 2 * 3) << "three pieces on each rank";
}

template <class Body>
std::string refusal(const Body& body) {
  try {
    body();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST_F(InStreamOrder, WhatNoStreamOrdersIsRefusedAtOnce) {
  on_ranks(2, [](StreamCollectives& streams) {
    const DeviceArray<float> data{{1, 2}}, elsewhere{{1, 2}, Where::pool};
    Stream stream{data.span().data()};
    auto ordered = streams.on(stream.get());
    std::vector<float> host(2);
    EXPECT_THAT(refusal([&] { ordered.all_reduce(data.span(), host); }),
                HasSubstr("the output is host memory"));
    EXPECT_THAT(refusal([&] { ordered.all_reduce(host, data.span()); }),
                HasSubstr("the input is host memory"));
    EXPECT_THAT(refusal([&] { ordered.all_reduce(data.span(), elsewhere.span()); }),
                HasSubstr("one stream orders one device's"));
    EXPECT_THAT(refusal([&] { ordered.all_reduce(elsewhere.span()); }),
                HasSubstr("the stream is device 0's, and the buffers are on device 1"));
    EXPECT_THAT(refusal([&] { ordered.send(host, 1 - streams.rank()); }),
                HasSubstr("exchange: the buffer of the message to rank"));
    EXPECT_THAT(refusal([&] { ordered.exchange({Message::any_length(0, host)}); }),
                HasSubstr("message from rank 0 has any length"));
    ordered.all_reduce(data.span());
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_THAT(data.values(), ::testing::ElementsAre(2, 4)) << "refusals disturb nobody";
  });
  driver_knob("capturing", 1);
  on_ranks(1, [](StreamCollectives& streams) {
    const DeviceArray<float> data{{1, 2}};
    Stream stream{data.span().data()};
    EXPECT_THAT(refusal([&] { streams.on(stream.get()).all_reduce(data.span()); }),
                HasSubstr("captured into a graph"));
  });
  driver_knob("capturing", -1);
}

/// The stream never gets to the call.
TEST_F(InStreamOrder, ALostDeviceEndsACallThatWaitsForItsStream) {
  std::atomic<int> put = 0, ended = 0;
  driver_knob("hang", 1);
  on_ranks(2, [&](StreamCollectives& streams) {
    const DeviceArray<float> data{{1, 2}};
    Stream stream{data.span().data()};
    streams.on(stream.get()).all_reduce(data.span());
    if (++put == 2) driver_knob("lost", 719);
    for (int i = 0; i < 30'000 && !streams.async_error(); ++i) std::this_thread::sleep_for(1ms);
    EXPECT_NE(streams.async_error(), nullptr);
    EXPECT_THROW(streams.on(stream.get()).start_all_reduce(data.span()).wait(), Error);
    if (++ended == 2) {
      driver_knob("lost", -719);
      driver_knob("hang", -1);
    }
    for (int i = 0; i < 30'000 && ended < 2; ++i) std::this_thread::sleep_for(1ms);
  });
}

/// The stream continues, the handle has the error, and the peers do not wait.
TEST_F(InStreamOrder, AFailureEndsTheGroupAndLetsTheStreamGoOn) {
  std::atomic<int> own = 0, adopted = 0;
  driver_knob("fail_to_host", 1);
  on_ranks(2, [&](StreamCollectives& streams) {
    const DeviceArray<float> data{{1, 2}};
    Stream stream{data.span().data()};
    Work work = streams.on(stream.get()).start_all_reduce(data.span());
    try {
      work.wait();
    } catch (const SystemError&) {
      ++own;
    } catch (const Aborted&) {
      ++adopted;
    }
    EXPECT_EQ(stream.synchronize(), 0);
    EXPECT_THROW(streams.on(stream.get()).all_reduce(data.span()), Error) << "for good";
  });
  driver_knob("fail_to_host", -driver_knob("fail_to_host"));
  EXPECT_EQ(own, 1);
  EXPECT_EQ(adopted, 1);
}

}  // namespace
}  // namespace capstan
