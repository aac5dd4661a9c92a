// SPDX-License-Identifier: Apache-2.0

// Plans of added algorithms are proven at the size that runs: what is wrong at one size only never
// runs there.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <vector>

#include "capstan/custom_algorithm.hpp"
#include "core/schedule/custom/added_algorithms.hpp"
#include "core/schedule/interchange/prove_set.hpp"
#include "tests/ranks/reference_calls.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The error of every rank in a call by this algorithm; "" where it runs right.
std::string outcome(int ranks, Collective collective, const std::string& name, const Shape& shape,
                    Settings settings) {
  settings.algorithm = fmt::format("{}:{}", name_of(collective), name);
  ByRank<std::string> told(ranks);
  on_threads(ranks, settings, [&](Communicator& world) {
    std::string& own = told[Rank{world.rank()}];
    ReferenceCalls calls{world, shape.count.value()};
    try {
      own = calls.run(collective, shape, false).value_or("");
    } catch (const AlgorithmRefused& error) {
      own = error.what();
    }
  });
  for (const std::string& text : told) EXPECT_EQ(text, told[Rank{0}]);
  return told[Rank{0}];
}

std::string outcome(int ranks, const std::string& name, std::uint64_t count,
                    const Settings& settings = bounded_settings(),
                    Collective collective = Collective::all_reduce, int root = 0) {
  return outcome(ranks, collective, name, {.count = Elements{count}, .root = root}, settings);
}

/// Everybody sends everything to everybody. `spoil` may add to what a rank sends, if the call is
/// longer than 100 elements.
template <class Spoil>
CustomAlgorithm exchange_above_100(const std::string& name, Spoil spoil) {
  return {name, Collective::all_reduce, [spoil](const Group& group, const Shape& shape) {
            ScheduleBuilder s{group, shape.count, shape.count};
            const int p = group.size(), self = group.position();
            std::vector<Span> areas;
            for (int i = 0; i < p; ++i) areas.push_back(s.scratch(shape.count));
            const bool spoils = shape.count > Elements{100} && self == 1;
            for (int d = 1; d < p; ++d)
              if (!spoils || !spoil(s, group, areas, d))
                s.send(group.right(d), areas[static_cast<std::size_t>(self)], s.input());
            for (int d = 1; d < p; ++d) s.wait(group.right(d));
            areas[static_cast<std::size_t>(self)] = s.input();
            s.complete(s.output(), areas);
            return std::move(s).build();
          }};
}

TEST(AddedPlans, AnOffsetThatIsWrongFromTheSecondSegmentOnIsRefused) {
  const auto segments = [](const Group& group, const Shape& shape) {
    constexpr std::uint64_t segment = 16;
    const std::uint64_t n = shape.count.value();
    ScheduleBuilder s{group, shape.count, shape.count};
    const Span landing = s.scratch(shape.count);
    for (std::uint64_t at = 0; at < n; at += segment) {
      const std::uint64_t length = std::min(segment, n - at);
      const bool wrong = at > 0 && length >= 2;
      s.put(group.right(), landing.part({Elements{at}, Elements{length - wrong}}),
            s.input({Elements{at + wrong}, Elements{length - wrong}}));
      if (wrong)
        s.put(group.right(), landing.part({Elements{at + length - 1}, Elements{1}}),
              s.input({Elements{at}, Elements{1}}));
    }
    s.signal(group.right());
    s.wait(group.left());
    s.complete(s.output(), std::array{landing, s.input()});
    return std::move(s).build();
  };
  add_algorithm({"segments", Collective::all_reduce, segments}, std::array{2});
  EXPECT_EQ(outcome(2, "segments", 16), "");
  EXPECT_THAT(outcome(2, "segments", 40), AllOf(HasSubstr("the proof of all_reduce by 'segments'"),
                                                HasSubstr("count 40"), HasSubstr("misplaced")));
}

TEST(AddedPlans, AnAreaThatIsAnothersIsRefused) {
  add_algorithm(exchange_above_100("elsewhere",
                                   [](ScheduleBuilder& s, const Group& group,
                                      const std::vector<Span>& areas, int distance) {
                                     s.send(group.right(distance), areas[0], s.input());
                                     return true;
                                   }),
                std::array{2, 3});
  EXPECT_EQ(outcome(3, "elsewhere", 50), "");
  EXPECT_THAT(outcome(3, "elsewhere", 1000), HasSubstr("rank 1, step"));
}

TEST(AddedPlans, ASignalThatIsMissingIsRefused) {
  add_algorithm(
      exchange_above_100("silent", [](ScheduleBuilder&, const Group&, const std::vector<Span>&,
                                      int distance) { return distance == 1; }),
      std::array{2, 3});
  EXPECT_EQ(outcome(3, "silent", 100), "");
  EXPECT_THAT(outcome(3, "silent", 101), HasSubstr("deadlock: rank 2 waits for ever"));
}

TEST(AddedPlans, APutBeyondThePeersScratchIsRefused) {
  add_algorithm(
      exchange_above_100(
          "beyond",
          [](ScheduleBuilder& s, const Group& group, const std::vector<Span>&, int distance) {
            const Span more = s.scratch(s.input().length * 50);
            s.put(group.right(distance), more.part({more.length / 2, s.input().length}), s.input());
            return false;
          }),
      std::array{2, 3});
  EXPECT_EQ(outcome(3, "beyond", 100), "");
  for (const std::uint64_t count : {200, 5000, 300'000})
    EXPECT_THAT(outcome(3, "beyond", count), HasSubstr("scratch of another length"));
}

TEST(AddedPlans, AFunctionThatThrowsAtASizeIsNamedThere) {
  add_algorithm(exchange_above_100("throws",
                                   [](ScheduleBuilder&, const Group&, const std::vector<Span>&,
                                      int) -> bool { throw std::runtime_error("no idea"); }),
                std::array{2});
  EXPECT_EQ(outcome(2, "throws", 50), "");
  EXPECT_THAT(outcome(2, "throws", 1000), AllOf(HasSubstr("by 'throws' failed for rank 1 of 2"),
                                                HasSubstr("count 1000"), HasSubstr("no idea")));
  EXPECT_EQ(outcome(2, "throws", 60), "");
}

/// Schedules that change from call to call: what was proven is what runs.
TEST(AddedPlans, AFunctionThatIsNotPureIsRefusedOrRight) {
  const auto asked = std::make_shared<std::atomic<int>>(0);
  add_algorithm(exchange_above_100("moody",
                                   [asked](ScheduleBuilder& s, const Group& group,
                                           const std::vector<Span>& areas, int distance) {
                                     if (++*asked % 3 != 0) return false;
                                     s.send(group.right(distance), areas[0], s.input());
                                     return true;
                                   }),
                std::array{2});
  for (std::uint64_t count = 101; count < 120; ++count) {
    const std::string told = outcome(2, "moody", count);
    EXPECT_TRUE(told.empty() || told.starts_with("the proof of")) << told;
  }
}

/// A file of a built-in algorithm under another name.
void add_copy(Collective collective, std::string_view algorithm, int ranks, std::uint64_t count,
              const std::string& name) {
  ScheduleSet set =
      schedule_set(algorithm_named(collective, algorithm), ranks, {.count = Elements{count}});
  set.algorithm = name;
  AddedAlgorithms::of_process().add(std::move(set), "test");
}

/// An exported broadcast gave wrong data where a call was cut into more blocks than slots. Of a
/// million elements, which three ranks do not divide, not even the proof ended.
TEST(AddedPlans, AnExportedBroadcastIsRightInLongCalls) {
  Settings settings = bounded_settings();
  settings.chunk = Bytes{4096};
  for (const std::uint64_t count : {29, 1000, 1'000'000}) {
    const std::string name = fmt::format("exported_{}", count);
    add_copy(Collective::broadcast, "rendezvous", 3, count, name);
    for (const std::uint64_t size : {1, 29, 1000, 100'003})
      for (int times = 0; times < 5; ++times)
        EXPECT_EQ(outcome(3, name, size, settings, Collective::broadcast, times % 3), "")
            << count << ", " << size;
  }
}

/// a·x + b, after which c·x + d is done, in 32 bits each: the order matters.
std::uint64_t after(std::uint64_t first, std::uint64_t second) {
  const auto a = static_cast<std::uint32_t>(first >> 32), b = static_cast<std::uint32_t>(first),
             c = static_cast<std::uint32_t>(second >> 32), d = static_cast<std::uint32_t>(second);
  return std::uint64_t{a * c} << 32 | static_cast<std::uint32_t>(c * b + d);
}

TEST(AddedPlans, OperationsThatDoNotCommuteKeepTheOrderOfRanks) {
  for (const auto* algorithm : {"ring", "direct", "rabenseifner"})
    add_copy(Collective::all_reduce, algorithm, 3, 13, fmt::format("in_order_{}", algorithm));
  for (const auto* algorithm : {"ring", "direct", "rabenseifner"}) {
    Settings settings = bounded_settings();
    settings.algorithm = fmt::format("all_reduce:in_order_{}", algorithm);
    on_threads(3, settings, [&](Communicator& world) {
      const auto reducer = Reducer::of<std::uint64_t>("after", after, false);
      for (const std::size_t count : {1, 2, 3, 13, 100, 5000}) {
        const auto given = [](int rank, std::size_t i) {
          return static_cast<std::uint64_t>(3 + rank) << 32 |
                 (7 + i + 5 * static_cast<unsigned>(rank));
        };
        std::vector<std::uint64_t> data(count), sums(count);
        for (std::size_t i = 0; i < count; ++i) data[i] = given(world.rank(), i);
        world.all_reduce(data, sums, reducer);
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(sums[i], after(after(given(0, i), given(1, i)), given(2, i)))
              << algorithm << ", " << count << ", " << i;
      }
    });
  }
}

/// Ranks add what they get in an order of their own.
Schedule own_order(const Group& group, const Shape& shape) {
  ScheduleBuilder s{group, shape.count, shape.count};
  std::vector<Span> areas{s.input()};
  for (int i = 1; i < group.size(); ++i) areas.push_back(s.scratch(shape.count));
  for (int d = 1; d < group.size(); ++d)
    s.send(group.right(d), areas[static_cast<std::size_t>(d)], s.input());
  for (int d = 1; d < group.size(); ++d) s.wait(group.left(d));
  s.complete(s.output(), areas);
  return std::move(s).build();
}

/// The bits of a sum of floats on each rank.
std::set<std::vector<float>> results_of_ranks(const Settings& settings) {
  std::set<std::vector<float>> results;
  std::mutex mutex;
  on_threads(3, settings, [&](Communicator& world) {
    std::vector<float> data(1000);
    for (int i = 0; i < 1000; ++i)
      data[static_cast<std::size_t>(i)] =
          std::ldexp(1.F + 0.001F * static_cast<float>(i), (world.rank() * 37 + i * 13) % 40 - 20);
    world.all_reduce(data);
    const std::scoped_lock lock{mutex};
    results.insert(data);
  });
  return results;
}

TEST(AddedPlans, SumsThatRoundDifferentlyOnRanksAreRefused) {
  add_algorithm({"own_order", Collective::all_reduce, own_order}, std::array{2, 3});
  EXPECT_EQ(outcome(3, "own_order", 1000), "") << "integers do not round";
  Settings settings = bounded_settings();
  settings.algorithm = "all_reduce:own_order";
  on_threads(3, settings, [](Communicator& world) {
    std::vector<float> data(1000, 1);
    try {
      world.all_reduce(data);
      ADD_FAILURE() << "not refused";
    } catch (const AlgorithmRefused& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("add in different orders"),
                                      HasSubstr("CAPSTAN_REPRODUCIBLE=none")));
    }
    world.all_reduce(data, ReduceOp::max);  // does not round either
    EXPECT_EQ(data[999], 1);
  });
  settings.reproducible = Reproducible::none;
  EXPECT_GT(results_of_ranks(settings).size(), 1U);
  settings.algorithm.clear();
  EXPECT_EQ(results_of_ranks(settings).size(), 1U);
}

TEST(AddedPlans, OrderOfSumsIsFoundAlsoOfFiles) {
  ScheduleSet set =
      schedule_set(algorithm_named(Collective::all_reduce, "direct"), 3, {.count = Elements{6}});
  set.guarantees = {};
  set.traffic = Traffic::partials;
  EXPECT_TRUE(prove_set(set).same_sums);
  for (const Rank rank : all_ranks(3))
    set.schedules[rank] = own_order(Group::world(3, rank), set.shape);
  const auto proof = prove_set(set);
  EXPECT_TRUE(proof.ok());
  EXPECT_FALSE(proof.same_sums);
}

TEST(AddedPlans, AProofThatTakesTooLongIsRefusedOrTrusted) {
  add_algorithm({"long_proof", Collective::all_reduce, own_order}, std::array{3});
  Settings settings = bounded_settings();
  settings.proof_limit = std::chrono::milliseconds{0};
  EXPECT_THAT(outcome(3, "long_proof", 77, settings),
              AllOf(HasSubstr("would take more than 0 s"), HasSubstr("CAPSTAN_PROOF_LIMIT=trust")));
  settings.trust_long_proofs = true;
  EXPECT_EQ(outcome(3, "long_proof", 77, settings), "");
}

/// As the call would throw.
TEST(AddedPlans, ExplainTellsThatTheProofRefusesTheCall) {
  add_algorithm({"explained", Collective::all_reduce, own_order}, std::array{3});
  Settings settings = bounded_settings();
  settings.algorithm = "all_reduce:explained";
  settings.proof_limit = std::chrono::milliseconds{0};
  on_threads(3, settings, [](Communicator& world) {
    std::vector<float> data(77);
    EXPECT_THAT(world.explain(request::in_place(Collective::all_reduce, data, ReduceOp::sum)),
                HasSubstr("; such calls fail: the proof of all_reduce(77 x f32, sum) by "
                          "'explained' on 3 ranks would take more than 0 s"));
  });
}

/// Small calls, and calls that are cut into blocks: where ranks have counts of their own, some end
/// long before others.
std::vector<Shape> small_and_long(Collective collective) {
  const int root = has_root(collective) ? 1 : 0;
  if (!has_counts(collective))
    return {{.count = Elements{5}, .root = root}, {.count = Elements{3000}, .root = root}};
  std::vector<Elements> few, many;
  for (int i = 0; i < (collective == Collective::all_to_all_v ? 9 : 3); ++i) {
    few.emplace_back(static_cast<std::uint64_t>((i * 2 + 1) % 4));
    many.emplace_back(std::array<std::uint64_t, 3>{5003, 0, 1700}[static_cast<std::size_t>(i % 3)]);
  }
  return {{.root = root, .counts = few}, {.root = root, .counts = many}};
}

/// Every built-in algorithm runs by plans that are proven before.
TEST(AddedPlans, PlansOfBuiltInAlgorithmsAreProvenOnDemand) {
  Settings settings = bounded_settings();
  settings.prove = true;
  settings.chunk = Bytes{4096};
  for (const Collective collective : all_collectives())
    for (const Algorithm& algorithm : algorithms(collective)) {
      SCOPED_TRACE(fmt::format("{} by {}", name_of(collective), algorithm.name));
      for (const Shape& shape : small_and_long(collective))
        EXPECT_EQ(outcome(3, collective, std::string{algorithm.name}, shape, settings), "");
    }
}

/// Functions are proven where ranks have counts of their own, too.
TEST(AddedPlans, CountsOfRanksAreProvenInBlocks) {
  Settings settings = bounded_settings();
  settings.chunk = Bytes{4096};
  for (const Collective collective : all_collectives()) {
    if (!has_counts(collective)) continue;
    for (const Algorithm& algorithm : algorithms(collective)) {
      SCOPED_TRACE(fmt::format("{} by {}", name_of(collective), algorithm.name));
      const std::string name = fmt::format("counted_{}", algorithm.name);
      add_algorithm({name, collective, [&](const Group& group, const Shape& shape) {
                       return algorithm.schedule(group, shape);
                     }});
      for (const Shape& shape : small_and_long(collective))
        EXPECT_EQ(outcome(3, collective, name, shape, settings), "");
    }
  }
}

}  // namespace
}  // namespace capstan
