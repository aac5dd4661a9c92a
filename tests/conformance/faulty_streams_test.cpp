// SPDX-License-Identifier: Apache-2.0

// Transports with faults: full streams, sleeping, and many wakers.

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <thread>

#include "tests/conformance/faulty_ranks.hpp"
#include "tests/conformance/mailbox.hpp"

namespace capstan::conformance {
namespace {

using namespace std::chrono_literals;

// --- Bytes from elsewhere ---

TEST(FaultyStreams, LongBytesFromElsewhereArriveInOrderAsThereIsRoom) {
  constexpr std::uint64_t words = (5 << 20) / 8;  // more than a stream has room for
  for (const bool loopback : {false, true}) {
    Ranks ranks(all_faults(7), 2, loopback, Bytes{6 << 20});
    std::vector<std::uint64_t> elsewhere(words);
    for (std::uint64_t i = 0; i < words; ++i) elsewhere[i] = word_of(Rank{0}, Rank{1}, 0, i);
    ranks[0].push_from(Rank{1}, Bytes{8 + 3}, elsewhere.data(), Bytes{words * 8});
    ranks.send(0, 1, 0, 1);
    EXPECT_FALSE(ranks[0].pushed(Rank{1}));
    for (int calls = 0; ranks.seen(1, 0, 0) == 0; ++calls) {
      ASSERT_LT(calls, 100'000);
      ranks[0].progress();
      ranks[1].progress();
    }
    ranks[0].progress();
    EXPECT_TRUE(ranks[0].pushed(Rank{1}));
    const std::byte* place = ranks[1].link(Rank{0}).segment + 8 + 3;
    EXPECT_EQ(wrong_words(place, Rank{0}, Rank{1}, 0, words), 0u);
    EXPECT_EQ(ranks[0].segment()[11], std::byte{0});
  }
}

TEST(FaultyStreams, LongBytesFromElsewhereShowInPiecesOfWholeWords) {
  Ranks ranks({}, 2, false, Bytes{6 << 20});
  constexpr std::size_t offset = 11, length = 5 << 20;
  const std::vector<std::byte> elsewhere(length, std::byte{1});
  ranks[0].push_from(Rank{1}, Bytes{offset}, elsewhere.data(), Bytes{length});
  ranks.wake(0, 1);
  const std::byte* begin = ranks[1].link(Rank{0}).segment + offset;
  const std::byte* end = begin;
  int stops = 0;
  while (end < begin + length) {
    ASSERT_LT(++stops, 1000);
    ranks[1].progress();
    ranks[0].progress();
    end = std::find(end, begin + length, std::byte{0});
    if (end < begin + length) {
      EXPECT_EQ((end - begin + offset) % 8, 0u);
    }
  }
  EXPECT_GT(stops, 2);
}

TEST(FaultyStreams, WhatHasNoRoomYetWhenItsSenderLeavesStillArrives) {
  Ranks ranks(all_faults(8), 2, false, Bytes{6 << 20});
  const std::vector<std::byte> elsewhere(5 << 20, std::byte{3});
  ranks[0].push_from(Rank{1}, Bytes{8}, elsewhere.data(), Bytes{elsewhere.size()});
  ranks.send(0, 1, 0, 1);
  const std::jthread receiver{[&] {
    wait_until([&] { return ranks[1].progress(), ranks.seen(1, 0, 0) == 1; }, "the flag");
  }};
  ranks.leave(0);
}

TEST(FaultyStreams, NothingWaitsForOneThatHasLeft) {
  Ranks ranks({}, 2, false, Bytes{6 << 20});
  ranks.leave(1);
  const std::vector<std::byte> elsewhere(5 << 20, std::byte{3});
  ranks[0].push(Rank{1}, Bytes{0}, Bytes{5 << 20});
  ranks[0].push_from(Rank{1}, Bytes{8}, elsewhere.data(), Bytes{elsewhere.size()});
  ranks.wake(0, 1);
  for (int calls = 0; !ranks[0].pushed(Rank{1}); ++calls) {
    ASSERT_LT(calls, 10'000);
    ranks[0].progress();
  }
}

// --- Sleeping ---

/// A single rank that records the time limits of its sleeps.
class SleepRecorder final : public MirroredTransport {
 public:
  explicit SleepRecorder(std::vector<std::chrono::nanoseconds>& sleeps)
      : MirroredTransport(Rank{0}, 1, FaultyTransport::inner_segment(Ranks::segment_size, 1),
                          nullptr),
        sleeps_(sleeps) {}
  std::string_view name() const override { return "recorder"; }
  Address address() const override { return {}; }
  void connect(std::span<const Address>, Deadline) override {}
  void push(Rank, Bytes, Bytes) override {}
  void progress() override {}
  void prepare_to_sleep() override {}
  void sleep(std::chrono::nanoseconds at_most) override { sleeps_.push_back(at_most); }
  void cancel_sleep() override {}
  std::optional<std::string> departed(Rank) override { return std::nullopt; }

 private:
  void ring(const Link&) override {}
  std::vector<std::chrono::nanoseconds>& sleeps_;
};

std::vector<std::chrono::nanoseconds> recorded_sleeps(const FaultPlan& plan,
                                                      std::chrono::nanoseconds at_most) {
  std::vector<std::chrono::nanoseconds> sleeps;
  FaultyTransport transport(std::make_unique<SleepRecorder>(sleeps), Rank{0}, 1,
                            Ranks::segment_size, plan);
  for (int i = 0; i < 100; ++i) {
    transport.prepare_to_sleep();
    transport.progress();
    transport.sleep(at_most);
  }
  return sleeps;
}

TEST(FaultyStreams, SleepsEndForNoReasonOrEarly) {
  EXPECT_EQ(recorded_sleeps({}, 7s), std::vector<std::chrono::nanoseconds>(100, 7s));
  EXPECT_TRUE(recorded_sleeps({.seed = 1, .spurious = 1}, 7s).empty());
  const auto some = recorded_sleeps({.seed = 1, .spurious = 0.5}, 7s).size();
  EXPECT_TRUE(some > 20 && some < 80) << some;
  for (const auto sleep : recorded_sleeps({.seed = 1, .early = 1}, 7s)) EXPECT_LT(sleep, 7s);
  constexpr auto for_ever = std::chrono::nanoseconds::max();
  for (const auto sleep : recorded_sleeps({.seed = 1, .early = 1}, for_ever)) EXPECT_GE(sleep, 0ns);
}

bool is_readable(int descriptor) {
  pollfd entry{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) == 1;
}

TEST(FaultyStreams, NobodySleepsOnWhatIsHeldBack) {
  for (const bool loopback : {false, true}) {
    Ranks ranks({.seed = 1, .delay = 1, .delay_calls = 50}, 2, loopback);
    const Deadline deadline = Deadline::in(patience);
    for (std::uint64_t i = 1; i <= 10; ++i) {
      ranks.send(0, 1, 0, i);
      while (ranks.seen(1, 0, 0) < i) {
        ranks[1].prepare_to_sleep();
        ranks[1].progress();
        if (ranks.seen(1, 0, 0) == i) {
          ranks[1].cancel_sleep();
          break;
        }
        if (loopback) {
          EXPECT_TRUE(is_readable(ranks[1].descriptor()));
        }
        ranks[1].sleep(2 * patience);
      }
    }
    EXPECT_FALSE(deadline.expired());
    ranks[1].prepare_to_sleep();
    EXPECT_EQ(ranks[1].descriptor() >= 0, loopback);
    if (loopback) {
      ranks[1].progress();
      EXPECT_FALSE(is_readable(ranks[1].descriptor()));
      ranks.send(0, 1, 0, 11);
      EXPECT_TRUE(is_readable(ranks[1].descriptor()));
    }
    ranks[1].cancel_sleep();
  }
}

TEST(FaultyStreams, ManyMayWakeAtOnce) {
  Ranks ranks(all_faults(11));
  constexpr std::uint64_t rounds = 500;
  std::jthread waker{[&](const std::stop_token& stop) {
    while (!stop.stop_requested()) ranks.wake(0, 1);
  }};
  const std::jthread receiver{[&] {
    wait_until([&] { return ranks[1].progress(), ranks.seen(1, 0, 0) == rounds; }, "the end");
    waker.request_stop();
  }};
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    ranks.send(0, 1, 0, round);
    ranks[0].progress();
  }
}

}  // namespace
}  // namespace capstan::conformance
