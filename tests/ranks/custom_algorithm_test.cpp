// SPDX-License-Identifier: Apache-2.0

// Algorithms that a program adds, as functions and as files, run as built-in ones do.

#include "capstan/custom_algorithm.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <tuple>

#include "capstan/communicator.hpp"
#include "core/schedule/custom/added_algorithms.hpp"
#include "core/schedule/interchange/formats.hpp"
#include "core/schedule/interchange/prove_set.hpp"
#include "core/schedule/simulation/forecast.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <class Body>
void run_threads(int ranks, Body body, const std::string& rules = "") {
  Settings settings = bounded_settings();
  settings.algorithm = rules;
  on_threads(ranks, settings, body);
}

/// Everybody sends everything to everybody.
Schedule exchange(const Group& group, const Shape& shape) {
  ScheduleBuilder s{group, shape.count, shape.count};
  std::vector<Span> all;
  for (int i = 0; i < group.size(); ++i) all.push_back(s.scratch(shape.count));
  for (int d = 1; d < group.size(); ++d)
    s.send(group.right(d), all[static_cast<std::size_t>(group.position())], s.input());
  for (int d = 1; d < group.size(); ++d) s.wait(group.right(d));
  all[static_cast<std::size_t>(group.position())] = s.input();
  s.complete(s.output(), all);
  return std::move(s).build();
}

/// The same, but rank 1 does not wait for rank 0.
Schedule hasty(const Group& group, const Shape& shape) {
  ScheduleBuilder s{group, shape.count, shape.count};
  const Span landing = s.scratch(shape.count);
  s.send(group.right(), landing, s.input());
  if (group.position() != 1) s.wait(group.left());
  const Span both[] = {landing, s.input()};
  s.complete(s.output(), both);
  return std::move(s).build();
}

/// Sums of several lengths on threads, by rules; "" or what is wrong.
void expect_sums(const std::vector<int>& sizes, const std::string& rules, std::string_view name) {
  for (const int ranks : sizes) {
    run_threads(
        ranks,
        [&](Communicator& world) {
          for (const std::size_t count : {0, 1, 2, 3, 5, 64, 1000, 300'001}) {
            std::vector<std::int32_t> data(count), sums(count);
            std::iota(data.begin(), data.end(), world.rank() * 7);
            for (int times = 0; times < 3; ++times) world.all_reduce(data, sums);
            for (std::size_t i = 0; i < count; ++i)
              ASSERT_EQ(sums[i], world.size() * static_cast<std::int32_t>(i) +
                                     7 * world.size() * (world.size() - 1) / 2)
                  << name << ", " << count << ", " << i;
            world.all_reduce(data);
            ASSERT_EQ(data, sums);
          }
          std::vector<float> some(8);
          EXPECT_EQ(world.algorithm(request::in_place(Collective::all_reduce, std::span{some})),
                    name);
        },
        rules);
  }
}

TEST(CustomAlgorithm, AFunctionRunsByItsName) {
  add_algorithm({"exchange", Collective::all_reduce, exchange, "in one step"}, std::array{2, 3});
  expect_sums({2, 3, 4}, "all_reduce:exchange", "exchange");
}

/// The proof finds out what it promises.
TEST(CustomAlgorithm, PromisesAreFoundOut) {
  add_algorithm({"promising", Collective::all_reduce, exchange});
  const Algorithm* found =
      AddedAlgorithms::of_process().find(Collective::all_reduce, "promising", 3);
  EXPECT_TRUE(found->guarantees.synchronizes);
  EXPECT_TRUE(found->guarantees.bounded_skew);
  EXPECT_TRUE(found->guarantees.ordered);
}

TEST(CustomAlgorithm, AWrongOneIsRefusedWithRankAndStep) {
  try {
    add_algorithm({"hasty", Collective::all_reduce, hasty}, std::array{2});
    FAIL() << "it was not refused";
  } catch (const AlgorithmRefused& error) {
    EXPECT_EQ(error.rank(), Rank{1});
    EXPECT_GE(error.step(), 0);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("all_reduce by 'hasty' on 2 ranks"), HasSubstr("rank 1, step")));
  }
  run_threads(2, [](Communicator& world) {
    EXPECT_THROW((void)world.with_algorithm("all_reduce:hasty"), AlgorithmRefused);
    std::vector<float> data(3, 1);
    world.all_reduce(data);  // nothing has happened to this one
    EXPECT_EQ(data[2], 2);
  });
}

/// The exchange with phases(rank, elements) phases, which begin between its sends and its waits.
CustomAlgorithm exchange_in_phases(const std::string& name,
                                   const std::function<int(int, Elements)>& phases) {
  return {name, Collective::all_reduce, [phases](const Group& group, const Shape& shape) {
            ScheduleBuilder s{group, shape.count, shape.count};
            std::vector<Span> all;
            for (int i = 0; i < group.size(); ++i) all.push_back(s.scratch(shape.count));
            const auto own = static_cast<std::size_t>(group.position());
            for (int d = 1; d < group.size(); ++d) s.send(group.right(d), all[own], s.input());
            for (int i = 1; i < phases(group.position(), shape.count); ++i) s.next_phase();
            for (int d = 1; d < group.size(); ++d) s.wait(group.right(d));
            all[own] = s.input();
            s.complete(s.output(), all);
            return std::move(s).build();
          }};
}

std::string refusal_of(CustomAlgorithm algorithm, int ranks) {
  try {
    add_algorithm(std::move(algorithm), std::array{ranks});
  } catch (const AlgorithmRefused& error) {
    return error.what();
  }
  return "it was not refused";
}

/// With a phase between its sends and its waits a rank is a block further ahead than three slots
/// allow. So slots are acquired, and long calls are right.
TEST(CustomAlgorithm, PromisesHoldInLongCallsToo) {
  add_algorithm(exchange_in_phases("two_phases", [](int, Elements) { return 2; }), std::array{3});
  const Algorithm* found =
      AddedAlgorithms::of_process().find(Collective::all_reduce, "two_phases", 3);
  EXPECT_TRUE(found->guarantees.synchronizes);
  EXPECT_FALSE(found->guarantees.bounded_skew);
  Settings settings = bounded_settings();
  settings.algorithm = "all_reduce:two_phases";
  settings.chunk = Bytes{4096};
  on_threads(3, settings, [](Communicator& world) {
    std::vector<std::int32_t> data(300'000), sums(data.size());
    for (int times = 0; times < 20; ++times) {
      std::iota(data.begin(), data.end(), world.rank() + times);
      world.all_reduce(data, sums);
      for (std::size_t i = 0; i < data.size(); ++i)
        ASSERT_EQ(sums[i], 3 * (static_cast<std::int32_t>(i) + times) + 3) << times << ", " << i;
    }
  });
}

/// The last block of a long call is shorter than the others: it has fewer phases, or more.
TEST(CustomAlgorithm, BlocksOfOneCallHaveDifferentNumbersOfPhases) {
  for (const auto& [name, of_long, of_short] :
       {std::tuple{"long_in_phases", 3, 1}, {"short_in_phases", 1, 3}}) {
    const auto phases = [=](int, Elements count) {
      return count >= Elements{512} ? of_long : of_short;
    };
    add_algorithm(exchange_in_phases(name, phases), std::array{3});
    Settings settings = bounded_settings();
    settings.algorithm = fmt::format("all_reduce:{}", name);
    settings.chunk = Bytes{4096};
    on_threads(3, settings, [&](Communicator& world) {
      for (const std::size_t count : {100, 1024, 1124, 20'000, 512, 513}) {
        std::vector<std::int64_t> data(count), sums(count);
        std::iota(data.begin(), data.end(), world.rank());
        world.all_reduce(data, sums);
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(sums[i], 3 * static_cast<std::int64_t>(i) + 3) << name << ", " << i;
      }
    });
    const ClusterCall call{
        .call = {.collective = Collective::all_reduce, .shape = {.count = Elements{1124}}},
        .algorithm = AddedAlgorithms::of_process().find(Collective::all_reduce, name, 3),
        .block = Elements{512}};
    const Hosts hosts{{0, 1, 2}};
    const Forecast found =
        forecast(call, {.hosts = hosts, .fabric = make_fabric(parse_fabric("flat"), 3, 1)});
    EXPECT_EQ(found.blocks, 3U) << name;
    EXPECT_GT(found.time, 0) << name;
  }
}

TEST(CustomAlgorithm, PhasesThatNoLongCallCanRunAreRefused) {
  EXPECT_THAT(refusal_of(exchange_in_phases("four", [](int, Elements) { return 4; }), 2),
              HasSubstr("use at most 3 phases"));
  EXPECT_THAT(
      refusal_of(exchange_in_phases("unequal", [](int rank, Elements) { return 1 + rank; }), 2),
      HasSubstr("rank 1 has 2 phases, rank 0 has 1: call next_phase() equally often"));
  EXPECT_THAT(refusal_of(exchange_in_phases("many", [](int, Elements) { return 300; }), 2),
              HasSubstr("at most 256 phases"));
}

TEST(CustomAlgorithm, APeerThatDoesNotExistIsRefused) {
  const auto off_by_one = [](const Group& group, const Shape& shape) {
    ScheduleBuilder s{group, shape.count, shape.count};
    s.send(Rank{group.position() + 1}, s.scratch(shape.count), s.input());
    return std::move(s).build();
  };
  EXPECT_THAT(refusal_of({"off_by_one", Collective::all_reduce, off_by_one}, 3),
              AllOf(HasSubstr("rank 2, step 0: no such rank: put input"),
                    HasSubstr("but there are ranks 0 to 2: use group[i]")));
}

TEST(CustomAlgorithm, ScratchBeyondAllMeasureIsRefused) {
  const auto vast = [](const Group& group, const Shape& shape) {
    ScheduleBuilder s{group, shape.count, shape.count};
    (void)s.scratch(Elements{std::uint64_t{1} << 60});
    return std::move(s).build();
  };
  EXPECT_THAT(refusal_of({"vast", Collective::all_reduce, vast}, 2),
              HasSubstr("rank 0 has scratch of 1152921504606846976 elements, and at most"));
}

TEST(CustomAlgorithm, AFunctionThatFailsIsNamed) {
  const auto fails = [](const Group&, const Shape&) -> Schedule {
    throw std::runtime_error("boom");
  };
  EXPECT_THAT(
      refusal_of({"fails", Collective::all_reduce, fails}, 2),
      HasSubstr("the function of all_reduce by 'fails' failed for rank 0 of 2, count 1, root "
                "0: boom"));
  const auto outside = [](const Group& group, const Shape& shape) {
    ScheduleBuilder s{group, shape.count, shape.count};
    s.copy(s.output({Elements{1}, shape.count}), s.input());
    return std::move(s).build();
  };
  EXPECT_THAT(
      refusal_of({"outside", Collective::all_reduce, outside}, 2),
      HasSubstr("rank 0, step 0: destination output[1,2) exceeds the output of 1 elements"));
}

TEST(CustomAlgorithm, NamesAreTakenOnce) {
  add_algorithm({"unique", Collective::all_reduce, hasty});  // may be corrected before it runs
  EXPECT_THROW(add_algorithm({"unique", Collective::all_reduce, hasty}, std::array{2}),
               AlgorithmRefused);
  add_algorithm({"unique", Collective::all_reduce, exchange}, std::array{2});
  EXPECT_THROW(add_algorithm({"unique", Collective::all_reduce, exchange}), InvalidArgument);
  EXPECT_THROW(add_algorithm({"ring", Collective::all_reduce, exchange}), InvalidArgument);
  EXPECT_THROW(add_algorithm({"a:b", Collective::all_reduce, exchange}), InvalidArgument);
  EXPECT_THROW(add_algorithm({"empty", Collective::all_reduce, nullptr}), InvalidArgument);
}

TEST(CustomAlgorithm, ACommunicatorOfOtherRulesRunsIt) {
  add_algorithm({"later", Collective::all_reduce, exchange});
  run_threads(3, [](Communicator& world) {
    Communicator other = world.with_algorithm("all_reduce:later");
    std::vector<float> data(100, 1), sums(100);
    other.all_reduce(data, sums);
    EXPECT_EQ(sums[99], 3);
    EXPECT_EQ(other.algorithm(request::in_place(Collective::all_reduce, std::span{data})), "later");
  });
}

/// Every algorithm as a file: at its own size, at others that are no multiples of it, and with
/// other roots it gives what its collective promises.
TEST(CustomAlgorithm, EveryAlgorithmAsAFileIsProvenAtOtherSizes) {
  for (const Collective collective : all_collectives())
    for (const Algorithm& algorithm : algorithms(collective)) {
      Shape shape{.count = Elements{collective == Collective::barrier ? 0u : 8u}};
      if (has_counts(collective)) {
        shape.count = Elements{0};
        shape.counts.assign(collective == Collective::all_to_all_v ? 16 : 4, Elements{3});
      }
      auto set = schedule_set(algorithm, 4, shape);
      set.algorithm = fmt::format("copy_of_{}", algorithm.name);
      SCOPED_TRACE(title_of(set));
      const auto [of, name] = add_schedule_text(to_json(set), "text");
      EXPECT_EQ(of, collective);
      EXPECT_NE(AddedAlgorithms::of_process().find(collective, name, 4), nullptr);
    }
}

/// A guarantee that is found at small sizes, where most units of a file are empty, has to hold at
/// the size where none is: an exported broadcast ran in long calls as if its skew were bounded.
TEST(CustomAlgorithm, GuaranteesOfFilesHoldAtTheirOwnSize) {
  for (const Collective collective : {Collective::broadcast, Collective::reduce,
                                      Collective::all_reduce, Collective::reduce_scatter})
    for (const Algorithm& algorithm : algorithms(collective)) {
      auto set = schedule_set(algorithm, 3, {.count = Elements{29}});
      set.algorithm = fmt::format("own_size_{}", algorithm.name);
      SCOPED_TRACE(title_of(set));
      set.guarantees = {};
      add_schedule_text(to_json(set), "text");
      const Algorithm* found = AddedAlgorithms::of_process().find(collective, set.algorithm, 3);
      set.guarantees = found->guarantees;
      EXPECT_THAT(prove_set(set).texts(), ::testing::IsEmpty());
    }
}

/// A root in the middle swaps the halves of its data.
TEST(CustomAlgorithm, RootsInTheMiddleAreProven) {
  const auto build = [](const Group& group, const Shape& shape) {
    ScheduleBuilder s{group, shape.count, shape.count};
    const int self = group.position(), root = shape.root;
    const Elements half = shape.count / 2;
    const bool swaps = root > 0 && root + 1 < group.size() && shape.count == half * 2;
    const Range low{Elements{0}, half}, high{half, half};
    const Span box = s.scratch(shape.count);
    if (self == root) {
      for (int i = 0; i < group.size(); ++i) {
        if (i == root) continue;
        if (swaps) s.put(group[i], box.part(low), s.input().part(high));
        if (swaps) s.put(group[i], box.part(high), s.input().part(low));
        if (!swaps) s.put(group[i], box, s.input());
        s.signal(group[i]);
      }
      s.copy(s.output(), s.input());
    } else {
      s.wait(group[root]);
      s.copy(s.output(), box);
    }
    return std::move(s).build();
  };
  EXPECT_THAT(refusal_of({"middle", Collective::broadcast, build}, 4), HasSubstr("root 1"));
}

TEST(CustomAlgorithm, PathsThatAreNoScheduleFilesAreRefused) {
  for (const std::string& path : {std::string{",,,,"}, std::string(5000, 'a'),
                                  std::string{"/proc/self/mem"}, std::string{"/dev/zero"}})
    EXPECT_THROW(add_schedules(path), InvalidArgument) << path.substr(0, 20);
}

TEST(CustomAlgorithm, AFileRunsAtAnySize) {
  for (const char* name : {"ring", "rabenseifner", "direct", "recursive_doubling"}) {
    auto set =
        schedule_set(algorithm_named(Collective::all_reduce, name), 3, {.count = Elements{24}});
    set.algorithm = fmt::format("file_{}", name);
    add_schedule_text(to_json(set), "text");
    expect_sums({3}, "all_reduce:" + set.algorithm, set.algorithm);
  }
}

TEST(CustomAlgorithm, AFileDoesNotServeOtherNumbersOfRanks) {
  auto set =
      schedule_set(algorithm_named(Collective::all_reduce, "flat"), 3, {.count = Elements{1}});
  set.algorithm = "three_only";
  add_schedule_text(to_json(set), "text");
  run_threads(
      2,
      [](Communicator& world) {
        std::vector<float> data(8);
        EXPECT_NE(world.algorithm(request::in_place(Collective::all_reduce, std::span{data})),
                  "three_only");
      },
      "all_reduce:three_only");
}

TEST(CustomAlgorithm, UnknownNamesAreRefusedWithThoseThatWereAdded) {
  add_algorithm({"named", Collective::all_reduce, exchange});
  try {
    AddedAlgorithms::of_process().check_name(Collective::all_reduce, "nobody");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("choose one of flat"), HasSubstr("named")));
  }
}

}  // namespace
}  // namespace capstan
