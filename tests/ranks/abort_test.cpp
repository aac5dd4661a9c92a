// SPDX-License-Identifier: Apache-2.0

// Communicator::abort and async_error, among threads; and the codes of errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <new>
#include <set>

#include "capstan/async/persistent.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;

/// Waits for a condition without a limit that a slow machine could reach.
template <class Condition>
bool comes_true(Condition condition) {
  const Deadline late = Deadline::in(std::chrono::seconds{60});
  while (!condition() && !late.expired()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  return condition();
}

std::string text_of(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Aborted& aborted) {
    return aborted.what();
  } catch (const std::exception& other) {
    return std::string{"another error: "} + other.what();
  }
  return "no error";
}

/// The text of the Aborted that `call` throws.
template <class Call>
std::string text_of_aborted(Call call) {
  try {
    call();
  } catch (...) {
    return text_of(std::current_exception());
  }
  return "no error";
}

constexpr const char* reason = "the loss is not a number";

void expect_aborted_by(int rank, const std::string& text) {
  EXPECT_THAT(text, HasSubstr("rank " + std::to_string(rank) + " aborted the communicator"));
  EXPECT_THAT(text, HasSubstr(reason));
}

/// On one host, and on two with a network between them.
class Abort : public ::testing::TestWithParam<int> {
 protected:
  static Settings settings() {
    Settings settings = bounded_settings();
    settings.virtual_hosts = GetParam();
    return settings;
  }
};

/// Ranks 1 and 2 wait for rank 0, which does not call before they have ended. Another thread of
/// rank 2 aborts.
TEST_P(Abort, EndsWhatWaitsOnAllRanks) {
  std::atomic<int> started = 0, ended = 0;
  on_threads(3, settings(), [&](Communicator& world) {
    std::vector<float> data(1000, 1);
    if (world.rank() == 0) {
      EXPECT_TRUE(comes_true([&] { return world.async_error() != nullptr; }));
      expect_aborted_by(2, text_of(world.async_error()));
      EXPECT_TRUE(comes_true([&] { return ended == 2; }));
      return expect_aborted_by(2, text_of_aborted([&] {
                                 world.all_reduce(data);  // for which all has arrived
                                 world.barrier();
                               }));
    }
    std::jthread other;
    if (world.rank() == 2)
      other = std::jthread{[&] {
        EXPECT_TRUE(comes_true([&] { return started == 2; }));
        world.abort(reason);
        expect_aborted_by(2, text_of(world.async_error()));
      }};
    EXPECT_EQ(world.async_error(), nullptr);
    ++started;
    expect_aborted_by(2, text_of_aborted([&] { world.all_reduce(data); }));
    ++ended;
    expect_aborted_by(2, text_of_aborted([&] { world.barrier(); }));
    expect_aborted_by(2, text_of(world.async_error()));
  });
}

TEST_P(Abort, EndsOperationsInTheBackgroundAndMessages) {
  on_threads(2, settings(), [&](Communicator& world) {
    std::vector<float> data(100'000), buffer(10), other(10);
    if (world.rank() == 0) {
      const Work sum = world.start_all_reduce(data);
      const Work message = world.start_receive(buffer, 1);
      const Work next = world.start_broadcast(other, 1);
      world.abort(reason);
      for (const Work& work : {sum, message, next}) {
        EXPECT_TRUE(work.is_completed());
        expect_aborted_by(0, text_of(work.error()));
      }
    } else {
      expect_aborted_by(0, text_of_aborted([&] { world.receive(buffer, 0); }));
      expect_aborted_by(0, text_of_aborted([&] { world.probe(0); }));
    }
  });
}

/// The abort comes while data flow, and at a moment that nothing chooses.
TEST_P(Abort, EndsALongCallInTheMiddle) {
  on_threads(2, settings(), [&](Communicator& world) {
    std::vector<float> data(3'000'000, 1);
    std::jthread other;
    std::atomic<int> calls = 0;
    if (world.rank() == 1)
      other = std::jthread{[&] {
        EXPECT_TRUE(comes_true([&] { return calls > 2; }));
        world.abort(reason);
      }};
    const Deadline late = Deadline::in(std::chrono::seconds{60});
    const std::string text = text_of_aborted([&] {
      for (; !late.expired(); ++calls) world.all_reduce(data, ReduceOp::max);
    });
    expect_aborted_by(1, text);
  });
}

TEST_P(Abort, ConcernsItsCommunicatorAlone) {
  on_threads(2, settings(), [&](Communicator& world) {
    auto group = world.split(0);
    group->barrier();
    if (world.rank() == 0) group->abort(reason);
    expect_aborted_by(0, text_of_aborted([&] {
                        for (int i = 0; i < 1'000'000; ++i) group->barrier();
                      }));
    int sum = 1;
    world.all_reduce(std::span{&sum, 1});
    EXPECT_EQ(sum, 2);
    EXPECT_EQ(world.async_error(), nullptr);
    world.barrier();
  });
}

TEST_P(Abort, TheFirstOneCounts) {
  on_threads(2, settings(), [&](Communicator& world) {
    if (world.rank() == 0) {
      world.abort(reason);
      world.abort("another reason");
      world.abort(std::string(5000, 'x'));
    }
    expect_aborted_by(0, text_of_aborted([&] {
                        for (int i = 0; i < 1'000'000; ++i) world.barrier();
                      }));
    expect_aborted_by(0, text_of(world.async_error()));
  });
}

/// All ranks abort, ask and call at once, each by several threads.
TEST_P(Abort, IsSafeFromAnyThread) {
  for (int round = 0; round < 10; ++round)
    on_threads(2, settings(), [&](Communicator& world) {
      std::vector<std::jthread> others;
      for (int i = 0; i < 2; ++i)
        others.emplace_back([&] {
          for (int asks = 0; asks < 100 && !world.async_error(); ++asks) std::this_thread::yield();
          world.abort(reason);
        });
      const std::string text = text_of_aborted([&] {
        std::vector<int> data(10);
        for (int i = 0; i < 10'000'000; ++i) world.all_reduce(data);
      });
      EXPECT_THAT(text, HasSubstr(reason));
      for (auto& other : others) other.join();
      EXPECT_THAT(text_of(world.async_error()), HasSubstr(reason));
    });
}

/// The rank that has aborted stays: what ends the others is its word alone.
TEST_P(Abort, EndsProbesOfOthers) {
  const std::vector<std::function<void(Communicator&)>> ways{
      [](Communicator& world) { world.probe(1, 7); }, [](Communicator& world) { world.probe(); },
      [](Communicator& world) {
        while (!world.try_probe(1, 7)) std::this_thread::yield();
      },
      [](Communicator& world) {
        while (!world.try_probe()) std::this_thread::yield();
      }};
  for (const auto& probe : ways) {
    std::latch ended{1};
    on_threads(2, settings(), [&](Communicator& world) {
      if (world.rank() == 0) {
        EXPECT_THAT(text_of_aborted([&] { probe(world); }), HasSubstr(reason));
        ended.count_down();
      } else {
        world.abort(reason);
        ended.wait();
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Hosts, Abort, ::testing::Values(0, 2),
                         [](const auto& test) { return test.param == 0 ? "One" : "Two"; });

TEST(AsyncError, IsTheErrorThatCallsThrow) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::vector<float> data(world.rank() == 0 ? 8 : 9);
    EXPECT_THROW(world.all_reduce(data), Mismatch);
    EXPECT_EQ(code_of(world.async_error()), ErrorCode::mismatch);
  });
}

TEST(AsyncError, APeerThatLeftIsLost) {
  auto world = Communicator::local_world(2);
  {
    const Communicator left = std::move(world[1]);
  }
  EXPECT_EQ(world[0].async_error(), nullptr) << "nothing needs the peer";
  EXPECT_THROW(world[0].barrier(), PeerLost);
  EXPECT_EQ(code_of(world[0].async_error()), ErrorCode::peer_lost);
}

template <class Kind, class... Arguments>
ErrorCode code_of_thrown(Arguments... arguments) {
  return code_of(std::make_exception_ptr(Kind{arguments...}));
}

/// The numbers are part of the interface: this list only grows.
TEST(ErrorCodes, HaveLastingNumbersAndNames) {
  const std::vector<std::pair<int, std::string>> expected{
      {1, "internal"},           {100, "invalid_argument"}, {101, "not_supported"},
      {200, "system_error"},     {300, "limit_reached"},    {400, "bootstrap_failed"},
      {401, "join_timed_out"},   {402, "wrong_secret"},     {500, "peer_lost"},
      {600, "timed_out"},        {700, "mismatch"},         {800, "truncated"},
      {900, "aborted"},          {1000, "cancelled"},       {1100, "deadline_exceeded"},
      {1200, "operation_failed"}};
  std::vector<std::pair<int, std::string>> found;
  for (const ErrorCode code : all_error_codes())
    found.emplace_back(static_cast<int>(code), name_of(code));
  EXPECT_EQ(found, expected);
  EXPECT_EQ(name_of(ErrorCode{99'999}), "unknown");
  EXPECT_EQ(class_of(ErrorCode::wrong_secret), ErrorCode::bootstrap_failed);
  EXPECT_EQ(class_of(ErrorCode::internal), ErrorCode::internal);
}

TEST(ErrorCodes, EachClassHasItsOwn) {
  const std::string text = "text";
  EXPECT_EQ(code_of_thrown<InvalidArgument>(text), ErrorCode::invalid_argument);
  EXPECT_EQ(code_of_thrown<SystemError>(text), ErrorCode::system_error);
  EXPECT_EQ(code_of_thrown<LimitReached>(text), ErrorCode::limit_reached);
  EXPECT_EQ(code_of_thrown<BootstrapError>(text), ErrorCode::bootstrap_failed);
  EXPECT_EQ(code_of_thrown<PeerLost>(Rank{3}, text), ErrorCode::peer_lost);
  EXPECT_EQ(code_of_thrown<TimedOut>(text), ErrorCode::timed_out);
  EXPECT_EQ(code_of_thrown<Mismatch>(text), ErrorCode::mismatch);
  EXPECT_EQ(code_of_thrown<Truncated>(text), ErrorCode::truncated);
  EXPECT_EQ(code_of_thrown<Aborted>(text), ErrorCode::aborted);
  EXPECT_EQ(code_of_thrown<Cancelled>(text), ErrorCode::cancelled);
  EXPECT_EQ(code_of_thrown<DeadlineExceeded>(text), ErrorCode::deadline_exceeded);
  EXPECT_EQ(code_of_thrown<OperationFailed>(text, nullptr), ErrorCode::operation_failed);
  EXPECT_EQ(code_of_thrown<std::bad_alloc>(), ErrorCode::limit_reached);
  EXPECT_EQ(code_of_thrown<std::runtime_error>(text), ErrorCode::internal);
  EXPECT_EQ(code_of(std::make_exception_ptr(1)), ErrorCode::internal);
  EXPECT_EQ(code_of(nullptr), ErrorCode::internal);
}

TEST(ErrorCodes, AStreamOfAPersistentCallIsNotSupported) {
  auto world = Communicator::local_world(1);
  int stream = 0;
  Request request;
  request.stream = &stream;
  try {
    const PersistentCall call{world[0], request};
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_supported);
  }
}

}  // namespace
}  // namespace capstan
