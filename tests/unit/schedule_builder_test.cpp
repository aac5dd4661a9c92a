// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "capstan/error.hpp"
#include "capstan/schedule.hpp"

namespace capstan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Elements count{8};
constexpr Range whole{Elements{0}, count}, first_half{Elements{0}, Elements{4}},
    second_half{Elements{4}, Elements{4}}, nothing{Elements{3}, Elements{0}};

ScheduleBuilder builder() {
  return {Group::world(3, Rank{1}), count, count};
}

std::vector<std::string> text_of(const Schedule& schedule) {
  std::vector<std::string> lines;
  for (const Step& step : schedule.steps()) lines.push_back(to_string(schedule, step));
  return lines;
}

/// The text of the error.
std::string refusal(const std::function<void(ScheduleBuilder&)>& write) {
  ScheduleBuilder s = builder();
  try {
    write(s);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(ScheduleBuilder, RecordsEveryVerb) {
  ScheduleBuilder s = builder();
  const Span landing = s.scratch(Elements{4});
  s.copy(s.output(first_half), s.input(second_half));
  s.put(Rank{2}, landing, s.input(first_half));
  s.signal(Rank{2});
  s.wait(Rank{0});
  s.reduce(s.output(first_half), landing);
  EXPECT_THAT(text_of(std::move(s).build()),
              ElementsAre("copy input[4,8) -> output[0,4)", "put input[0,4) -> rank 2 scratch[0,4)",
                          "signal rank 2", "wait rank 0",
                          "reduce output[0,4), scratch[0,4) -> output[0,4)"));
}

TEST(ScheduleBuilder, KnowsItsRankAndExtents) {
  ScheduleBuilder s{Group{{Rank{7}, Rank{4}}, Rank{4}}, Elements{5}, Elements{6}};
  s.scratch(Elements{2});
  const Schedule schedule = std::move(s).build();
  EXPECT_EQ(schedule.self(), Rank{4});
  EXPECT_EQ(schedule.extents().of(Buffer::input), Elements{5});
  EXPECT_EQ(schedule.extents().of(Buffer::output), Elements{6});
  EXPECT_EQ(schedule.extents().of(Buffer::scratch), Elements{2});
}

TEST(ScheduleBuilder, AReduceReadsAnyNumberOfSourcesInOrder) {
  ScheduleBuilder s = builder();
  const Span a = s.scratch(count), b = s.scratch(count);
  const Span sources[] = {b, s.input(), a};
  s.reduce(s.output(), sources);
  EXPECT_THAT(text_of(std::move(s).build()),
              ElementsAre("reduce scratch[8,16), input[0,8), scratch[0,8) -> output[0,8)"));
}

TEST(ScheduleBuilder, OnlyACompleteMarksItsStep) {
  ScheduleBuilder s = builder();
  s.reduce(s.output(), s.input());
  s.complete(s.output(), s.input());
  const Schedule schedule = std::move(s).build();
  EXPECT_FALSE(schedule.steps()[0].completes);
  EXPECT_TRUE(schedule.steps()[1].completes);
  EXPECT_EQ(schedule.steps()[1].verb, Verb::reduce);
}

TEST(ScheduleBuilder, SendsAPutAndItsSignal) {
  ScheduleBuilder s = builder();
  s.send(Rank{0}, s.output(), s.input());
  EXPECT_THAT(text_of(std::move(s).build()),
              ElementsAre("put input[0,8) -> rank 0 output[0,8)", "signal rank 0"));
}

TEST(ScheduleBuilder, StepsOnNothingAreLeftOutButTheirSignalIsNot) {
  ScheduleBuilder s = builder();
  s.copy(s.output(nothing), s.input(nothing));
  s.reduce(s.output(), s.input());
  s.complete(s.output(nothing), s.input(nothing));
  s.send(Rank{0}, s.output(nothing), s.input(nothing));
  const Schedule schedule = std::move(s).build();
  EXPECT_THAT(text_of(schedule),
              ElementsAre("reduce output[0,8), input[0,8) -> output[0,8)", "signal rank 0"));
  EXPECT_FALSE(schedule.steps().front().completes) << "an empty complete marked the step before it";
}

TEST(ScheduleBuilder, ScratchAllocationsAreDisjoint) {
  ScheduleBuilder s = builder();
  const Span a = s.scratch(Elements{3}), b = s.scratch(Elements{0}), c = s.scratch(Elements{2});
  EXPECT_EQ(a, (Span{Buffer::scratch, Elements{0}, Elements{3}}));
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(c.offset, a.end());
}

TEST(ScheduleBuilder, PhasesCountFromZero) {
  ScheduleBuilder s = builder();
  s.signal(Rank{0});
  s.next_phase();
  s.next_phase();
  s.wait(Rank{0});
  const Schedule schedule = std::move(s).build();
  EXPECT_EQ(schedule.phases(), 3);
  EXPECT_EQ(schedule.steps()[0].phase, 0);
  EXPECT_EQ(schedule.steps()[1].phase, 2);
}

TEST(ScheduleBuilder, RefusesOperandsOutsideTheirBuffer) {
  const Range beyond{Elements{5}, Elements{4}};
  EXPECT_THAT(refusal([&](auto& s) { s.copy(s.output(first_half), s.input(beyond)); }),
              HasSubstr("source input[5,9) exceeds the input of 8 elements"));
  EXPECT_THAT(refusal([&](auto& s) { s.copy(s.output(beyond), s.input(first_half)); }),
              HasSubstr("destination output[5,9) exceeds the output of 8 elements"));
  EXPECT_THAT(
      refusal([&](auto& s) { s.put(Rank{0}, s.scratch(count).part({count, count}), s.input()); }),
      HasSubstr("exceeds the scratch"));
}

TEST(ScheduleBuilder, RefusesAnOperandWhoseEndOverflows) {
  const Span wrapped{Buffer::input, Elements{~std::uint64_t{0}}, Elements{2}};
  EXPECT_THAT(refusal([&](auto& s) { s.copy(s.output({Elements{0}, Elements{2}}), wrapped); }),
              HasSubstr("exceeds the input"));
}

TEST(ScheduleBuilder, RefusesLengthsThatDiffer) {
  EXPECT_THAT(refusal([](auto& s) { s.copy(s.output(whole), s.input(first_half)); }),
              HasSubstr("copy of input[0,4) into output[0,8): the lengths differ"));
  EXPECT_THAT(refusal([](auto& s) {
                const Span sources[] = {s.input(first_half), s.input()};
                s.reduce(s.output(first_half), sources);
              }),
              HasSubstr("the lengths differ"));
}

TEST(ScheduleBuilder, RefusesAReduceOfNothing) {
  EXPECT_THAT(refusal([](auto& s) { s.reduce(s.output(), std::span<const Span>{}); }),
              HasSubstr("reduce has no source"));
}

TEST(ScheduleBuilder, RefusesToTalkToItself) {
  EXPECT_THAT(refusal([](auto& s) { s.signal(Rank{1}); }), HasSubstr("rank 1"));
  EXPECT_THAT(refusal([](auto& s) { s.wait(Rank{1}); }), HasSubstr("copy instead"));
  EXPECT_THAT(refusal([](auto& s) { s.put(Rank{1}, s.output(), s.input()); }),
              HasSubstr("copy instead"));
}

}  // namespace
}  // namespace capstan
