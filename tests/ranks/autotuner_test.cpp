// The first calls of a kind run in several ways, the others in the fastest of them.

#include "core/selection/autotuner.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "capstan/deadline.hpp"
#include "capstan/work.hpp"
#include "core/selection/selector.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A call that took so long.
void note(Trial& trial, float seconds) {
  static Trial::Clock::time_point now{};
  const auto begin = now;
  now += std::chrono::duration_cast<Trial::Clock::duration>(std::chrono::duration<float>{seconds});
  trial.note(begin, now);
}

class OfTwo : public ::testing::Test {
 protected:
  static Trials trials_of(Collective collective, Bytes bytes, bool shares_cores = false) {
    const Call call{.collective = collective, .shape = {.count = Elements{100'000}}};
    auto candidates = rivals(call, 4, {.reads_peers = true}, Bytes{1 << 20});
    candidates.resize(2);
    return {std::move(candidates), collective, bytes, shares_cores};
  }

  /// Runs all calls, of which `seconds(candidate, which)` says how long they took.
  template <class Seconds>
  static int run(Trials& trials, Seconds seconds) {
    if (!first_.algorithm) first_ = trials.choice();
    int calls = 0;
    std::array<int, 2> which{};
    for (; !trials.all_begun(); ++calls) {
      const Plan& plan = trials.next({}, [&](const Choice& choice) {
        Plan made;
        made.algorithm = choice.algorithm;
        made.protocol = choice.protocol;
        return made;
      });
      const bool second = plan.protocol != first_.protocol || plan.algorithm != first_.algorithm;
      note(*plan.trial, seconds(second, which[second]++));
    }
    return calls;
  }

  static void decide(Trials& trials) {
    std::vector<double> times(trials.number_of_times());
    trials.times(times);
    trials.decide(times);
  }

  /// Calls until the next review, which begins.
  static std::uint64_t go_on(Trials& trials) {
    std::uint64_t calls = 0;
    while (trials.goes_on()) ++calls;
    trials.begin_again();
    return calls;
  }

  /// What is expected to be the best.
  inline static Choice first_;
  void SetUp() override { first_ = {}; }
};

TEST_F(OfTwo, TheFasterWins) {
  Trials trials = trials_of(Collective::all_reduce, Bytes{400'000});
  const Protocol expected = trials.choice().protocol;
  EXPECT_FALSE(trials.decided());
  EXPECT_GT(run(trials, [](bool second, int) { return second ? 1e-3F : 2e-3F; }), 8);
  decide(trials);
  EXPECT_TRUE(trials.decided());
  EXPECT_NE(trials.choice().protocol, expected);
  EXPECT_THAT(trials.choice().reason, HasSubstr("the fastest of 2 that were tried, 1000.00 us"));
}

TEST_F(OfTwo, WhatIsExpectedHasToBeBeatenClearly) {
  Trials trials = trials_of(Collective::all_reduce, Bytes{400'000});
  const Protocol expected = trials.choice().protocol;
  run(trials, [](bool second, int) { return second ? 0.98e-3F : 1e-3F; });
  decide(trials);
  EXPECT_EQ(trials.choice().protocol, expected);
}

TEST_F(OfTwo, InALongCallMoreClearly) {
  const auto is_beaten = [](std::uint64_t bytes, float seconds) {
    Trials trials = trials_of(Collective::all_reduce, Bytes{bytes});
    const Protocol expected = trials.choice().protocol;
    run(trials, [&](bool second, int) { return second ? seconds : 1e-3F; });
    decide(trials);
    return trials.choice().protocol != expected;
  };
  EXPECT_TRUE(is_beaten(1 << 20, 0.92e-3F));
  EXPECT_FALSE(is_beaten(64 << 20, 0.92e-3F));
  EXPECT_TRUE(is_beaten(64 << 20, 0.88e-3F));
}

TEST_F(OfTwo, TheFirstOfATurnAndOneStrokeOfLuckDoNotCount) {
  for (const std::uint64_t bytes : {100'000, 2'000'000, 50'000'000}) {
    Trials trials = trials_of(Collective::all_reduce, Bytes{bytes});
    const Protocol expected = trials.choice().protocol;
    bool lucky = true;
    const int calls = run(trials, [&](bool second, int which) {
      if (!second) return which == 0 ? 1.0F : 1e-3F;
      if (which == 1 && std::exchange(lucky, false)) return 1e-6F;
      return which == 0 ? 1e-9F : 2e-3F;
    });
    EXPECT_LT(calls, 40);
    decide(trials);
    EXPECT_EQ(trials.choice().protocol, expected) << bytes;
  }
}

TEST_F(OfTwo, ReviewsBecomeRareAndAllOfThemCount) {
  Trials trials = trials_of(Collective::all_reduce, Bytes{400'000});
  const Protocol expected = trials.choice().protocol;
  run(trials, [](bool second, int) { return second ? 2e-3F : 1e-3F; });
  decide(trials);
  EXPECT_EQ(trials.choice().protocol, expected);

  const std::uint64_t calls = go_on(trials);
  EXPECT_FALSE(trials.decided());
  EXPECT_TRUE(trials.settled()) << "it runs as before";
  const int tried = run(trials, [](bool second, int) { return second ? 1e-3F : 4e-3F; });
  EXPECT_GE(calls, 14U * static_cast<unsigned>(tried));
  decide(trials);
  EXPECT_NE(trials.choice().protocol, expected) << "1.4 ms on average against 2";
  EXPECT_THAT(trials.choice().reason, HasSubstr("the fastest of 2 that were tried, the best of "
                                                "them 2 times, 1414.21 us"));

  EXPECT_EQ(go_on(trials), 2 * calls);
  run(trials, [](bool second, int) { return second ? 3e-3F : 2.9e-3F; });
  decide(trials);
  EXPECT_NE(trials.choice().protocol, expected);
}

TEST(Trials, LeaveOutOfReviewsWhatIsFarBehind) {
  std::vector<Choice> choices(4);
  for (std::size_t i = 0; i < choices.size(); ++i) choices[i].times_shorter = i + 1;
  Trials trials{choices, Collective::all_reduce, Bytes{400'000}, false};
  const auto tried_with = [&](const std::vector<float>& seconds) {
    std::set<std::uint64_t> tried;
    while (!trials.all_begun()) {
      const Plan& plan = trials.next({}, [](const Choice&) { return Plan{}; });
      const std::uint64_t which = plan.trial->choice().times_shorter;
      tried.insert(which);
      note(*plan.trial, seconds[which - 1]);
    }
    std::vector<double> times(trials.number_of_times());
    trials.times(times);
    trials.decide(times);
    for (int i = 0; i < 100'000 && trials.decided(); ++i)
      if (!trials.goes_on()) trials.begin_again();
    return tried;
  };
  using Set = std::set<std::uint64_t>;
  EXPECT_EQ(tried_with({1e-3F, 4.1e-3F, 1.5e-3F, 3.5e-3F}), (Set{1, 2, 3, 4}));
  EXPECT_EQ(tried_with({1e-3F, 1e-3F, 1.5e-3F, 3.5e-3F}), (Set{1, 3, 4})) << "it was bad luck?";
  EXPECT_EQ(tried_with({1e-3F, 1e-3F, 9e-3F, 1e-3F}), (Set{1, 3}));
  EXPECT_TRUE(trials.decided()) << "what has no rival goes on for ever";
}

/// Where nobody can end before all have begun, what the first ones waited for the last does not
/// count, but what the last did meanwhile; otherwise, and where ranks share cores, all of it does.
TEST_F(OfTwo, WhatEarlyOnesWaitForDoesNotCountWhereAllWait) {
  using std::chrono::milliseconds;
  for (const auto& [collective, shares_cores, took] :
       {std::tuple{Collective::all_reduce, false, "2000.00"},
        {Collective::broadcast, false, "5000.00"},
        {Collective::all_reduce, true, "5000.00"}}) {
    Trials early = trials_of(collective, Bytes{400'000}, shares_cores),
           late = trials_of(collective, Bytes{400'000}, shares_cores);
    const auto run = [](Trials& trials, milliseconds begin, milliseconds end) {
      for (Trial::Clock::time_point now{}; !trials.all_begun(); now += milliseconds{10}) {
        const Plan& plan = trials.next({}, [](const Choice&) { return Plan{}; });
        plan.trial->note(now + begin, now + end);
      }
    };
    run(early, milliseconds{0}, milliseconds{5});
    run(late, milliseconds{3}, milliseconds{4});
    std::vector<double> a(early.number_of_times()), b(a.size());
    early.times(a);
    late.times(b);
    std::ranges::transform(a, b, a.begin(), [](double x, double y) { return std::max(x, y); });
    early.decide(a);
    EXPECT_THAT(early.choice().reason, HasSubstr(fmt::format("{} us (pred", took)));
  }
}

// In worlds of threads. Those that share cores try long calls only.

Settings trying() {
  Settings settings = bounded_settings();
  settings.autotune = true;
  return settings;
}

Request all_reduce_of(std::vector<float>& data) {
  return request::of(Collective::all_reduce, data, data);
}

/// Whether there are cores enough to try anything.
bool tries(int ranks) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 && CPU_COUNT(&allowed) >= ranks;
}

/// Whatever runs meanwhile, and however it is called.
TEST(Trials, AllRanksDecideAlikeAndGetRightResults) {
  constexpr int ranks = 2;
  std::vector<std::string> explained(ranks);
  on_threads(ranks, trying(), [&](Communicator& world) {
    const auto self = static_cast<std::size_t>(world.rank());
    std::vector<float> small(3000), large(40'000);
    for (int i = 0; i < 250; ++i) {
      for (std::vector<float>* data : {&small, &large}) {
        std::ranges::fill(*data, static_cast<float>(world.rank() + i));
        // One rank waits at once, the other later.
        if (world.rank() == 0)
          world.all_reduce(*data);
        else
          world.start_all_reduce(*data).wait();
        ASSERT_EQ(std::ranges::count(*data, static_cast<float>(2 * i + 1)), std::ssize(*data)) << i;
      }
      std::vector<int> moved(2000, world.rank() == i % ranks ? i : -1);
      world.broadcast(std::span{moved}, i % ranks);
      ASSERT_EQ(std::ranges::count(moved, i), std::ssize(moved));
    }
    EXPECT_TRUE(world.is_settled(all_reduce_of(small)));
    EXPECT_TRUE(world.is_settled(all_reduce_of(large)));
    explained[self] = world.explain(all_reduce_of(small)) + world.explain(all_reduce_of(large));
  });
  EXPECT_EQ(explained[0], explained[1]);
  if (tries(ranks)) {
    EXPECT_THAT(explained[0], HasSubstr("that were tried"));
  }
}

/// A kind is what calls of about the same size are: 262'000 floats are just below 1 MiB.
TEST(Trials, WhereRanksShareCoresLongCallsAreTried) {
  const int ranks = 2 * static_cast<int>(std::thread::hardware_concurrency());
  std::vector<std::string> explained(static_cast<std::size_t>(ranks));
  on_threads(ranks, trying(), [&](Communicator& world) {
    std::vector<float> little(3000), lots(262'000);
    for (int i = 0; i < 250 && !world.is_settled(all_reduce_of(lots)); ++i)
      for (std::vector<float>* data : {&little, &lots}) {
        std::ranges::fill(*data, static_cast<float>(i));
        world.all_reduce(*data);
        ASSERT_EQ(std::ranges::count(*data, static_cast<float>(ranks * i)), std::ssize(*data)) << i;
      }
    EXPECT_THAT(world.explain(all_reduce_of(little)), Not(HasSubstr("tried")));
    explained[static_cast<std::size_t>(world.rank())] = world.explain(all_reduce_of(lots));
  });
  for (const std::string& text : explained) {
    EXPECT_THAT(text, HasSubstr("that were tried"));
    EXPECT_EQ(text, explained.front());
  }
}

TEST(Trials, ManyInFlightWaitForTheDecision) {
  on_threads(3, trying(), [&](Communicator& world) {
    constexpr int n = 120;
    std::vector<std::vector<float>> data(n, std::vector<float>(5000));
    for (int repetition = 0; repetition < 2; ++repetition) {
      std::vector<Work> works;
      for (int i = 0; i < n; ++i) {
        std::ranges::fill(data[i], static_cast<float>(world.rank() * i));
        works.push_back(world.start_all_reduce(data[i]));
      }
      for (int i = 0; i < n; ++i) {
        works[i].wait();
        ASSERT_EQ(std::ranges::count(data[i], static_cast<float>(3 * i)), std::ssize(data[i])) << i;
      }
    }
    EXPECT_TRUE(world.is_settled(all_reduce_of(data.front())));
  });
}

/// On a busy machine one way may seem far ahead of all others.
void skip_unless_reviewed(const std::string& explained) {
  if (explained.find("the best of them") == std::string::npos)
    GTEST_SKIP() << "nothing came near enough to the fastest to be tried again: " << explained;
}

/// Ranks are at different calls when a review begins, and some know how theirs run long before
/// their turn comes.
TEST(Trials, ReviewsBeginWithTheSameCallOnAllRanks) {
  constexpr int ranks = 2, most = 20'000;
  std::vector<std::string> explained(ranks);
  std::vector<int> calls(ranks);
  on_threads(ranks, trying(), [&](Communicator& world) {
    const auto self = static_cast<std::size_t>(world.rank());
    std::mt19937 random{static_cast<unsigned>(world.rank())};
    std::vector<std::vector<std::int64_t>> data(64, std::vector<std::int64_t>(300));
    const auto request = request::of(Collective::all_reduce, data[0], data[0]);
    const auto reviewed = [&] {
      const std::string text = world.explain(request);
      return text.find("them 2 times") != std::string::npos || !tries(ranks);
    };
    for (bool over = false; !over && calls[self] < most;) {  // alike on all: asked between calls
      for (int left = 512; left > 0;) {
        const int together = std::min<int>(left, 1 + static_cast<int>(random() % data.size()));
        std::vector<Work> works;
        for (int i = 0; i < together; ++i) {
          std::ranges::fill(data[i], (calls[self] + i) * (world.rank() + 1));
          if (random() % 4 == 0)
            world.all_reduce(data[i]);
          else
            works.push_back(world.start_all_reduce(data[i]));
        }
        for (Work& work : works) work.wait();
        for (int i = 0; i < together; ++i)
          ASSERT_EQ(std::ranges::count(data[i], 3 * (calls[self] + i)), std::ssize(data[i]));
        calls[self] += together;
        left -= together;
      }
      over = reviewed();
    }
    explained[self] = world.explain(request);
  });
  EXPECT_EQ(explained[0], explained[1]);
  EXPECT_EQ(calls[0], calls[1]);
  skip_unless_reviewed(explained[0]);
}

/// Where thousands wait, a review may be due while calls before it do not know how they will run.
TEST(Trials, ReviewsBeginAlikeWithThousandsInFlight) {
  if (!tries(2)) GTEST_SKIP() << "nothing is tried where ranks share cores";
  constexpr std::size_t most = 16'000, each = 4'000, taken = 1'000;
  std::string explained;
  std::atomic<std::size_t> submitted = 0;
  const auto wait_for_backlog = [&](std::size_t call) {
    const Deadline deadline = Deadline::in(std::chrono::seconds{60});
    const std::size_t wanted = std::min(most, (call / taken + 1) * each);
    while (submitted.load() < wanted && !deadline.expired()) std::this_thread::yield();
  };
  on_threads(2, trying(), [&](Communicator& world) {
    const std::int64_t weight = world.rank() + 1;
    std::vector<std::vector<std::int64_t>> data(most, std::vector<std::int64_t>(2));
    for (std::size_t i = 0; i < most; ++i)
      std::ranges::fill(data[i], weight * std::ssize(data) + i);
    if (world.rank() == 0) {
      for (std::size_t i = 0; i < most; ++i) {
        if (i % taken == 0) wait_for_backlog(i);
        world.all_reduce(data[i]);
      }
    } else {
      std::vector<Work> works;
      for (std::size_t i = 0; i < most; ++i) {
        works.push_back(world.start_all_reduce(data[i]));
        submitted = i + 1;
        if (i % each == each - 1) works[i / each * taken].wait();
      }
      for (Work& work : works) work.wait();
    }
    for (std::size_t i = 0; i < most; ++i)
      ASSERT_EQ(data[i].back(), std::int64_t{3 * most} + 2 * static_cast<std::int64_t>(i)) << i;
    if (world.rank() == 0)
      explained = world.explain(request::of(Collective::all_reduce, data[0], data[0]));
  });
  skip_unless_reviewed(explained);
}

TEST(Trials, AreNotForRulesNorThoseWhoDoNotWantThem) {
  const auto settled = [](const Settings& settings, std::size_t count) {
    bool answer = false;
    on_threads(2, settings, [&](Communicator& world) {
      std::vector<float> data(count);
      if (world.rank() == 0) answer = world.is_settled(all_reduce_of(data));
    });
    return answer;
  };
  Settings off = trying(), ruled = trying();
  off.autotune = false;
  ruled.algorithm = "all_reduce:ring";
  EXPECT_TRUE(settled(off, 100'000));
  EXPECT_TRUE(settled(ruled, 100'000));
  EXPECT_EQ(settled(trying(), 100'000), !tries(2));
}

}  // namespace
}  // namespace capstan
