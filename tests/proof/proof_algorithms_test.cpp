// Every registered algorithm is proven: as a schedule and as the programs that it is lowered to.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/ir/proof/prove.hpp"
#include "core/runtime/prove_programs.hpp"
#include "tests/proof/builds.hpp"

namespace capstan {
namespace {

using namespace proof;  // NOLINT: the subject of this file

std::string messages(const Verdict& verdict) {
  std::string text;
  for (const auto& finding : verdict.findings) text += finding.message + "\n";
  return text;
}

/// Fewer elements than ranks, as many, not divisible, and none.
std::vector<Elements> awkward_counts(int ranks) {
  const auto p = static_cast<std::uint64_t>(ranks);
  if (ranks > 17) return {Elements{1}, Elements{p + 1}};
  return {Elements{0}, Elements{1},     Elements{2},         Elements{p - 1},
          Elements{p}, Elements{p + 1}, Elements{2 * p + 1}, Elements{67}};
}

struct Case {
  const Algorithm* algorithm;
  int ranks;
};

class Proof : public ::testing::TestWithParam<Case> {};

TEST_P(Proof, Schedules) {
  const auto [algorithm, ranks] = GetParam();
  for (const Elements count : awkward_counts(ranks))
    for (const bool in_place : {false, true}) {
      const auto schedules = schedules_of(*algorithm, ranks, count);
      const auto verdict = prove_schedules(Collective::all_reduce, schedules,
                                           {.calls = ranks > 17 ? 3 : 4, .in_place = in_place});
      ASSERT_TRUE(verdict.ok()) << algorithm->name << ", " << ranks << " ranks, " << count.value()
                                << " elements\n"
                                << messages(verdict);
    }
}

TEST_P(Proof, Streams) {
  const auto [algorithm, ranks] = GetParam();
  if (ranks > 17) return;
  const auto schedules =
      schedules_of(*algorithm, ranks, Elements{static_cast<std::uint64_t>(ranks) + 1});
  const auto verdict = prove_schedules(Collective::all_reduce, schedules,
                                       {.calls = 2, .slots = 3, .in_place = true, .blocks = 5});
  ASSERT_TRUE(verdict.ok()) << messages(verdict);
}

TEST_P(Proof, LoweredPrograms) {
  const auto [algorithm, ranks] = GetParam();
  for (const Form form : {Form::flags, Form::packets})
    for (const Elements count : awkward_counts(ranks)) {
      const LoweredCall call{algorithm, form, count, 1, count};
      const auto verdict = prove_programs({call, call, call, call}, ranks, true);
      ASSERT_TRUE(verdict.ok()) << messages(verdict);
    }
}

TEST_P(Proof, LoweredStreamsWithAShorterLastBlock) {
  const auto [algorithm, ranks] = GetParam();
  if (ranks > 17) return;
  const auto p = static_cast<std::uint64_t>(ranks);
  const LoweredCall large{algorithm, Form::flags, Elements{2 * p + 1}, 6, Elements{p + 3}};
  const LoweredCall small{algorithm, Form::flags, Elements{p}, 4, Elements{1}};
  const auto verdict = prove_programs({large, small, large}, ranks, true);
  ASSERT_TRUE(verdict.ok()) << messages(verdict);
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const Algorithm& algorithm : algorithms(Collective::all_reduce)) {
    for (int ranks = 1; ranks <= 17; ++ranks) cases.push_back({&algorithm, ranks});
    cases.push_back({&algorithm, 32});
    cases.push_back({&algorithm, 64});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(AllReduce, Proof, ::testing::ValuesIn(all_cases()), [](const auto& test) {
  return std::string{test.param.algorithm->name} + "_" + std::to_string(test.param.ranks);
});

/// Any algorithm may follow any other on the same boards.
TEST(MixedCalls, AnyAlgorithmMayFollowAnyOther) {
  std::mt19937 random{2024};
  const auto known = algorithms(Collective::all_reduce);
  for (int round = 0; round < 60; ++round) {
    const int ranks = 2 + static_cast<int>(random() % 7);
    std::vector<LoweredCall> calls;
    for (int i = 0; i < 8; ++i) {
      const bool packets = random() % 3 == 0;
      calls.push_back({&known[random() % known.size()], packets ? Form::packets : Form::flags,
                       Elements{1 + random() % 20},
                       packets ? 1 : 1 + static_cast<int>(random() % 4), Elements{}});
      calls.back().last = packets || random() % 2 == 0 ? calls.back().block : Elements{1};
    }
    const auto verdict = prove_programs(calls, ranks, random() % 2 == 0);
    ASSERT_TRUE(verdict.ok()) << "round " << round << "\n" << messages(verdict);
  }
}

/// An algorithm sees the world through its group: any list of ranks will do.
TEST(Groups, AlgorithmsRunOnAnyGroup) {
  for (const Algorithm& algorithm : algorithms(Collective::all_reduce)) {
    const std::vector<Rank> members{Rank{9}, Rank{2}, Rank{5}, Rank{7}, Rank{0}};
    for (const Rank self : members) {
      const auto schedule = algorithm.schedule(Group{members, self}, Elements{11});
      EXPECT_EQ(schedule.self(), self);
      for (const Step& step : schedule.steps())
        if (step.verb == Verb::put || step.verb == Verb::signal || step.verb == Verb::wait) {
          EXPECT_NE(std::ranges::find(members, step.peer), members.end()) << algorithm.name;
        }
    }
  }
}

}  // namespace
}  // namespace capstan
