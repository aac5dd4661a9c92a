// SPDX-License-Identifier: Apache-2.0

// Messages between two ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <numeric>

#include "capstan/async/execute.hpp"
#include "tests/ranks/random_messages.hpp"
#include "tests/ranks/thread_world.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::HasSubstr;

/// Messages are received with and without reading the sender's memory, and make progress in a
/// thread of their own or in the caller's waits.
struct Variant {
  bool single_copy, progress_thread;
};

class MessageVariants : public ::testing::TestWithParam<Variant> {
 protected:
  static Settings settings() {
    Settings settings = bounded_settings();
    settings.single_copy = GetParam().single_copy;
    settings.progress_thread = GetParam().progress_thread;
    return settings;
  }
};

INSTANTIATE_TEST_SUITE_P(All, MessageVariants,
                         ::testing::Values(Variant{true, false}, Variant{false, false},
                                           Variant{true, true}),
                         [](const auto& test) {
                           return std::string{test.param.single_copy ? "InPlace" : "InFragments"} +
                                  (test.param.progress_thread ? "ByThread" : "");
                         });

TEST_P(MessageVariants, RandomOnesArriveRightAndInOrder) {
  for (const std::uint64_t seed : {1, 2, 3})
    on_threads(5, settings(), [&](Communicator& world) {
      EXPECT_EQ(RandomMessages(world, sanitized ? 1000 : 4000, seed).run(), "") << "seed " << seed;
    });
}

TEST_P(MessageVariants, ExchangesInHostileOrdersDoNotDeadlock) {
  on_threads(4, settings(), [](Communicator& world) {
    const int self = world.rank(), size = world.size();
    constexpr std::size_t length = 100'000;
    std::vector<std::vector<int>> out, in(4, std::vector<int>(length));
    for (int to = 0; to < size; ++to) out.emplace_back(length, self * 10 + to);
    for (int round = 0; round < 5; ++round) {
      std::vector<Message> messages;
      for (int i = 0; i < size; ++i) {
        const int to = (self * (round + 1) + i) % size, from = (size - 1 - i + self) % size;
        messages.push_back(Message::to(to, out[to], round));
        messages.push_back(Message::from(from, in[from], round));
      }
      world.exchange(messages);
      for (int from = 0; from < size; ++from) ASSERT_THAT(in[from], Each(from * 10 + self));
    }
  });
}

TEST_P(MessageVariants, EverybodySendsBeforeAnybodyReceives) {
  on_threads(3, settings(), [](Communicator& world) {
    std::vector<double> data(200'000, world.rank()), buffer(200'000);
    std::vector<Work> sends;
    for (int to = 0; to < 3; ++to)
      for (int i = 0; i < 4; ++i) sends.push_back(world.start_send(data, to, i));
    world.barrier();
    for (int i = 3; i >= 0; --i)
      for (int from = 0; from < 3; ++from) {
        world.receive(buffer, from, i);
        ASSERT_THAT(buffer, Each(from));
      }
    EXPECT_TRUE(Work::wait_all(sends, Deadline::in(60s)));
  });
}

TEST_P(MessageVariants, ProbeTellsBeforeTheReceive) {
  on_threads(2, settings(), [](Communicator& world) {
    if (world.rank() == 0) {
      std::vector<std::int64_t> numbers(50'000);
      std::iota(numbers.begin(), numbers.end(), 0);
      world.send(std::span{numbers}.first(3), 1, 7);
      world.send(numbers, 1, 8);
    } else {
      const MessageInfo late = world.probe(any_source, 8);
      EXPECT_EQ(late.source, 0);
      EXPECT_EQ(late.size, Bytes{400'000});
      EXPECT_EQ(world.probe(0, any_tag).tag, 7) << "the first that was sent";
      EXPECT_EQ(world.try_probe(1, any_tag), std::nullopt);
      std::vector<std::int64_t> buffer(50'000);
      EXPECT_EQ(world.receive(buffer, 0, 8).tag, 8);
      EXPECT_EQ(buffer[49'999], 49'999);
      EXPECT_EQ(world.receive(buffer).size, Bytes{24});
    }
  });
}

TEST_P(MessageVariants, AReceiveThatIsCancelledLeavesTheMessageToTheNext) {
  on_threads(2, settings(), [](Communicator& world) {
    std::vector<int> data(100, 5), buffer(100, -1), next(100, -1);
    if (world.rank() == 1) {
      Work work = world.start_receive(buffer, 0, 1);
      EXPECT_FALSE(work.wait_for(2ms));
      EXPECT_TRUE(work.cancel());
      EXPECT_THROW(work.wait(), Cancelled);
      world.barrier();
      EXPECT_EQ(world.receive(next, 0, 1).size, Bytes{400});
      EXPECT_THAT(next, Each(5));
      EXPECT_THAT(buffer, Each(-1));
    } else {
      world.barrier();
      world.send(data, 1, 1);
    }
  });
}

/// A long message waits as an offer; short ones wait for room in the ring when it is full.
TEST_P(MessageVariants, ASendThatNobodyTakesIsATimeOut) {
  for (const std::size_t length : {200'000, 1000}) {
    Settings impatient = settings();
    impatient.timeout = 100ms;
    std::latch failed{1};
    on_threads(2, impatient, [&](Communicator& world) {
      std::vector<std::uint8_t> data(length);
      const auto error_of = [](const auto& call) -> std::string {
        try {
          call();
        } catch (const TimedOut& error) {
          return error.what();
        }
        return "nothing";
      };
      if (world.rank() == 0) {
        const std::string error = error_of([&] {
          for (int i = 0; i < 5000; ++i) world.send(data, 1, 7);
        });
        EXPECT_THAT(error, HasSubstr("for rank 1 to take a message"));
        failed.count_down();
      } else {
        failed.wait();
        EXPECT_THAT(error_of([&] {
                      while (true) world.receive(data, 0, 8);
                    }),
                    HasSubstr("for rank 1 to take a message"))
            << "the communicator has failed";
      }
    });
  }
}

TEST(MessageRules, WhatCannotBeIsRefused) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<int> data(4);
    EXPECT_THROW(world.send(data, 2), InvalidArgument);
    EXPECT_THROW(world.send(data, -1), InvalidArgument);
    EXPECT_THROW(world.send(data, 0, -3), InvalidArgument);
    EXPECT_THROW(world.receive(data, 9), InvalidArgument);
    EXPECT_THROW(world.try_probe(0, -7), InvalidArgument);
    world.exchange({});
  });
}

TEST(MessageRules, AMessageThatIsTooLongIsLostAndTheNextIsNot) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    for (const std::size_t length : {10, 100'000}) {
      std::vector<int> data(length, 3), little(5), enough(length);
      if (world.rank() == 0) {
        world.send(data, 1);
        world.send(data, 1);
        continue;
      }
      try {
        world.receive(little);
        ADD_FAILURE() << "not noticed";
      } catch (const Truncated& error) {
        EXPECT_THAT(error.what(), HasSubstr("at most 20 bytes"));
        EXPECT_THAT(error.what(), HasSubstr(std::to_string(4 * length)));
      }
      world.receive(enough);
      EXPECT_THAT(enough, Each(3));
    }
  });
}

TEST(MessageRules, BothSidesUseOneType) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<float> floats(4, 1.5f);
    std::vector<int> whole(4);
    if (world.rank() == 0)
      world.send(floats, 1);
    else
      EXPECT_THROW(world.receive(whole), Mismatch);
    world.barrier();
  });
}

TEST(MessageRules, ToOneself) {
  on_threads(1, bounded_settings(), [](Communicator& world) {
    std::vector<int> first(50'000, 1), second(3, 2), buffer(50'000);
    Work late = world.start_receive(buffer, 0, 5);
    world.send(first, 0, 5);
    late.wait();
    EXPECT_THAT(buffer, Each(1));
    world.send(second, 0);
    EXPECT_EQ(world.receive(buffer).size, Bytes{12});
    EXPECT_EQ(buffer.front(), 2);
  });
}

TEST(MessageRules, ASenderThatLeavesIsNamed) {
  auto world = Communicator::local_world(2, bounded_settings());
  std::vector<int> buffer(10), data(10, 4);
  world[1].send(data, 0, 1);
  world.pop_back();
  EXPECT_EQ(world[0].receive(buffer, 1, 1).tag, 1) << "what it sent before counts";
  try {
    world[0].receive(buffer, 1, 2);
    ADD_FAILURE() << "not noticed";
  } catch (const PeerLost& error) {
    EXPECT_EQ(error.lost(), Rank{1});
    EXPECT_THAT(error.what(), HasSubstr("tag 2"));
  }
  EXPECT_THROW(world[0].probe(1, 2), PeerLost);
}

/// Rank 1 leaves before its message has arrived, and then overwrites its buffer.
void leave_while_sending(const Settings& settings, std::chrono::microseconds head_start) {
  constexpr std::size_t length = 1'000'000;
  auto world = Communicator::local_world(2, settings);
  std::vector<int> data(length, 4), buffer(length, -1);
  Work send = world[1].start_send(data, 0, 1);
  std::latch started(1);
  std::jthread receiver([&] {
    started.count_down();
    try {
      world[0].receive(buffer, 1, 1);
      EXPECT_THAT(buffer, Each(4)) << "what arrives is what was sent";
    } catch (const PeerLost& error) {
      EXPECT_EQ(error.lost(), Rank{1});
    }
  });
  started.wait();
  std::this_thread::sleep_for(head_start);
  world.pop_back();
  std::ranges::fill(data, 9);
  EXPECT_TRUE(send.is_completed());
}

TEST_P(MessageVariants, NobodyReadsTheBufferOfASendThatHasFailed) {
  for (const int microseconds : {0, 50, 100, 200, 300, 500, 1000})
    leave_while_sending(settings(), std::chrono::microseconds{microseconds});
}

TEST(MessageRules, AMessageThatIsTakenBackIsNotReceived) {
  auto world = Communicator::local_world(2, bounded_settings());
  std::vector<int> buffer(100'000, -1), data(100'000, 4);
  Work send = world[1].start_send(data, 0, 1);
  world.pop_back();
  EXPECT_THROW(send.wait(), Aborted);
  std::ranges::fill(data, 9);
  EXPECT_THROW(world[0].receive(buffer, 1, 1), PeerLost);
  EXPECT_THAT(buffer, Each(-1));
}

TEST(MessageRules, MessagesAndCollectivesDoNotMix) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    auto group = world.split(0);
    const int right = (world.rank() + 1) % 3;
    for (int i = 0; i < 50; ++i) {
      std::vector<int> token{world.rank() * 100 + i}, got(1), other(1), sum{1};
      const std::vector<int> minus{-1};
      Work sent = world.start_send(token, right, i);
      Work in_group = group->start_send(minus, right, i);
      world.all_reduce(sum);
      ASSERT_EQ(sum.front(), 3);
      group->receive(other, (world.rank() + 2) % 3, i);
      world.receive(got, (world.rank() + 2) % 3, i);
      ASSERT_EQ(got.front(), (world.rank() + 2) % 3 * 100 + i);
      ASSERT_EQ(other.front(), -1);
      sent.wait();
      in_group.wait();
    }
  });
}

}  // namespace
}  // namespace capstan
