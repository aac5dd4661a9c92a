// SPDX-License-Identifier: Apache-2.0

// Schedules as text: what is written can be read, what is read is proven, and what is wrong with a
// file is said.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "capstan/error.hpp"
#include "core/schedule/interchange/formats.hpp"
#include "core/schedule/interchange/prove_set.hpp"

namespace capstan {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Shape shape_for(Collective collective, int ranks, std::uint64_t count) {
  Shape shape{.count = Elements{count}, .root = has_root(collective) ? ranks - 1 : 0};
  if (collective == Collective::barrier) shape.count = Elements{0};
  if (!has_counts(collective)) return shape;
  const int lengths = collective == Collective::all_to_all_v ? ranks * ranks : ranks;
  for (int i = 0; i < lengths; ++i)
    shape.counts.emplace_back((static_cast<std::uint64_t>(i) * 7 + count) % 5);
  shape.count = Elements{0};
  return shape;
}

void for_each_algorithm(const std::function<void(const Algorithm&)>& visit) {
  for (const Collective collective : all_collectives())
    for (const Algorithm& algorithm : algorithms(collective)) visit(algorithm);
}

void expect_same(const ScheduleSet& read, const ScheduleSet& set) {
  EXPECT_EQ(read.algorithm, set.algorithm);
  EXPECT_EQ(read.summary, set.summary);
  EXPECT_EQ(read.collective, set.collective);
  EXPECT_EQ(read.hosts, set.hosts);
  EXPECT_EQ(read.shape, set.shape);
  EXPECT_EQ(read.traffic, set.traffic);
  EXPECT_EQ(read.guarantees.synchronizes, set.guarantees.synchronizes);
  EXPECT_EQ(read.guarantees.bounded_skew, set.guarantees.bounded_skew);
  EXPECT_EQ(read.guarantees.ordered, set.guarantees.ordered);
  EXPECT_EQ(read.guarantees.rank_ordered_sum, set.guarantees.rank_ordered_sum);
  EXPECT_EQ(read.schedules, set.schedules);
}

TEST(ScheduleFile, ReadingBackGivesTheSameScheduleForEveryAlgorithm) {
  for_each_algorithm([](const Algorithm& algorithm) {
    for (const Hosts& hosts : {Hosts{2}, Hosts{3}, Hosts{5}, Hosts{8}, Hosts{{0, 0, 1, 1, 2, 2}}})
      for (const std::uint64_t count : {0, 1, 7, 64}) {
        const auto set =
            schedule_set(algorithm, hosts, shape_for(algorithm.collective, hosts.ranks(), count));
        SCOPED_TRACE(title_of(set));
        expect_same(schedule_set_from_json(to_json(set), "file"), set);
      }
  });
}

TEST(ScheduleFile, OfEveryAlgorithmIsProven) {
  for_each_algorithm([](const Algorithm& algorithm) {
    const auto set = schedule_set(algorithm, 4, shape_for(algorithm.collective, 4, 6));
    const auto proof = prove_set(schedule_set_from_json(to_json(set), "file"));
    EXPECT_TRUE(proof.ok()) << title_of(set) << ": " << proof.findings.front().text;
    EXPECT_GE(proof.proofs, 4u);
  });
}

/// Two gigabytes are proven as twelve units.
TEST(ScheduleFile, TheSizeDoesNotMatterToTheProof) {
  const auto set = schedule_set(algorithm_named(Collective::all_reduce, "ring"), 4,
                                {.count = Elements{12 << 24}});
  EXPECT_EQ(in_units(set).shape.count, Elements{4});
  EXPECT_TRUE(prove_set(set).ok());
}

json ring_file() {
  return json::parse(to_json(
      schedule_set(algorithm_named(Collective::all_reduce, "ring"), 3, {.count = Elements{6}})));
}

json& steps_of(json& file, std::size_t rank) {
  return file["schedules"][rank]["steps"];
}

/// The first step with this verb.
std::size_t find(const json& steps, const char* verb) {
  const auto found =
      std::ranges::find_if(steps, [&](const json& step) { return step["verb"] == verb; });
  return static_cast<std::size_t>(found - steps.begin());
}

AlgorithmProof proof_of(const json& file) {
  return prove_set(schedule_set_from_json(file.dump(), "file"));
}

/// All findings as one text.
std::string findings_of(const json& file) {
  std::string all;
  for (const std::string& text : proof_of(file).texts()) all += text + "\n";
  return all;
}

/// Proven call by call, and wrong in calls that are cut into blocks.
TEST(ScheduleFile, APromiseIsProvenInLongCallsToo) {
  json file = json::parse(to_json(
      schedule_set(algorithm_named(Collective::all_reduce, "flat"), 3, {.count = Elements{8}})));
  file["phases"] = 2;
  for (std::size_t rank = 0; rank < 3; ++rank)
    for (json& step : steps_of(file, rank))
      if (step["verb"] == "wait" || step["verb"] == "reduce") step["phase"] = 1;
  EXPECT_THAT(findings_of(file), HasSubstr("because it promises 'bounded_skew'"));
  std::erase(file["guarantees"].get_ref<json::array_t&>(), json("bounded_skew"));
  EXPECT_THAT(findings_of(file), "");
}

TEST(ScheduleFile, WithoutAWaitIsRefused) {
  json file = ring_file();
  json& steps = steps_of(file, 1);
  steps.erase(find(steps, "wait"));
  EXPECT_THAT(findings_of(file),
              AllOf(HasSubstr("rank 1"), HasSubstr("rank 0"), HasSubstr("signal")));
}

TEST(ScheduleFile, WithASwappedBlockIsRefused) {
  json file = ring_file();
  json& steps = steps_of(file, 2);
  json& reduce = steps[find(steps, "reduce")];
  ASSERT_EQ(reduce["sources"][1][0], "input");
  reduce["sources"][1][1] = (reduce["sources"][1][1].get<int>() + 2) % 6;
  const auto proof = proof_of(file);
  ASSERT_FALSE(proof.ok());
  EXPECT_THAT(findings_of(file), HasSubstr("rank 2"));
  EXPECT_GE(proof.findings.front().step, 0) << findings_of(file);
}

TEST(ScheduleFile, WithoutAPutIsRefused) {
  json file = ring_file();
  json& steps = steps_of(file, 0);
  steps.erase(find(steps, "put"));
  EXPECT_THAT(findings_of(file),
              AllOf(HasSubstr("rank 1, step 3: "), HasSubstr("which nobody has written")));
}

/// Each rank waits before it signals.
TEST(ScheduleFile, WithACycleIsRefused) {
  json file = ring_file();
  for (std::size_t rank = 0; rank < 3; ++rank) {
    json& steps = steps_of(file, rank);
    std::swap(steps[find(steps, "signal")], steps[find(steps, "wait")]);
  }
  EXPECT_THAT(findings_of(file),
              AllOf(HasSubstr("deadlock"), HasSubstr("rank 0, step 1: "),
                    HasSubstr("rank 1, step 1: "), HasSubstr("rank 2, step 1: ")));
}

TEST(ScheduleFile, APromiseThatIsNotKeptIsRefused) {
  json file = ring_file();
  file["guarantees"].push_back("ordered");
  EXPECT_THAT(findings_of(file), HasSubstr("order of ranks"));
}

std::string refusal_of(const std::string& text) {
  try {
    schedule_set_from_json(text, "ring.json");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "nothing";
}

std::string refusal_after(const std::function<void(json&)>& change) {
  json file = ring_file();
  change(file);
  return refusal_of(file.dump());
}

TEST(ScheduleFile, WhatIsNoJsonIsRefusedWithLineAndColumn) {
  EXPECT_THAT(refusal_of("{\n  \"format\": oops}"), HasSubstr("ring.json:2:13: this is no JSON"));
  EXPECT_THAT(refusal_of(""), HasSubstr("ring.json:1:1: "));
  EXPECT_THAT(refusal_of("{\n  \"a\\\"1e999\": \"1e999\",\n  \"b\": 1e999}"),
              HasSubstr("ring.json:3:8: this is no JSON (a number that no double holds)"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("ring.json: the whole file: this has to be an object"));
}

/// One of the two values would be lost without a word.
TEST(ScheduleFile, KeysThatStandTwiceAreRefusedWithTheirPlaces) {
  EXPECT_THAT(refusal_of("{\n  \"ranks\": 2,\n  \"ranks\": 3}"),
              HasSubstr("ring.json:3:3: the key 'ranks' stands a second time in one object, after "
                        "2:3"));
  EXPECT_THAT(refusal_of(R"({"a": [{"b": "b", "c": {"b": 1}}, {"b": 2, "c": 3, "\u0062" : 4}]})"),
              HasSubstr("ring.json:1:52: the key 'b' stands a second time in one object, after "
                        "1:36"));
  EXPECT_THAT(refusal_of(R"({"format": "\"format\": 1", "version": ":", "x": ["x", "x"]})"),
              Not(HasSubstr("second time")));
}

TEST(ScheduleFile, MistakesAreRefusedWithTheirPath) {
  using S = const char*;
  const auto step = [](std::size_t rank, std::size_t index, S member, const json& value) {
    return refusal_after([&](json& file) { steps_of(file, rank)[index][member] = value; });
  };
  EXPECT_THAT(
      step(2, 1, "peer", 3),
      HasSubstr("ring.json: schedules[2].steps[1].peer: 3 is not a whole number from 0 to 2"));
  EXPECT_THAT(step(2, 1, "peer", 2),
              HasSubstr("schedules[2].steps[1]: rank 2, step 1: it puts to"));
  EXPECT_THAT(step(0, 0, "verb", "send"), HasSubstr("'send' is none of copy, reduce, put"));
  EXPECT_THAT(step(0, 0, "pier", 1), HasSubstr("it has a member 'pier'"));
  EXPECT_THAT(step(0, 0, "destination", {"scratch", 0}),
              HasSubstr("schedules[0].steps[0].destination: a range is"));
  EXPECT_THAT(step(0, 0, "destination", {"scratch", 400, 2}),
              HasSubstr("destination scratch[400,402) exceeds the scratch of 4 elements"));
  EXPECT_THAT(step(0, 0, "destination", {"scratch", 0, 1}), HasSubstr("the lengths differ"));
  EXPECT_THAT(step(0, 0, "destination", {"scratch", 0, 0}), HasSubstr("the range is empty"));
  EXPECT_THAT(step(0, 0, "destination", {"scratch", -1, 2}), HasSubstr("-1 is not a whole number"));
  EXPECT_THAT(step(0, 0, "sources", json::array()), HasSubstr("a put has one source"));
  EXPECT_THAT(step(0, 0, "phase", 1), HasSubstr("exceeds the file's 'phases', 1"));
}

TEST(ScheduleFile, AHeaderThatDoesNotFitIsRefused) {
  const auto member = [](const char* name, const json& value) {
    return refusal_after([&](json& file) { file[name] = value; });
  };
  EXPECT_THAT(member("format", "other"), HasSubstr("this is no schedule file"));
  EXPECT_THAT(member("version", 2), HasSubstr("version: version 2 cannot be read, only 1"));
  EXPECT_THAT(member("collective", "gossip"), HasSubstr("'gossip' is none of barrier"));
  EXPECT_THAT(member("algorithm", "a:b"), HasSubstr("'a:b' is no name of an algorithm"));
  EXPECT_THAT(member("ranks", 4), HasSubstr("3 schedules are given for 4 ranks"));
  EXPECT_THAT(member("ranks", 0), HasSubstr("one rank at least"));
  EXPECT_THAT(member("hosts", {0, 1}), HasSubstr("2 hosts are given for 3 ranks"));
  EXPECT_THAT(member("root", 0), HasSubstr("all_reduce has no root"));
  EXPECT_THAT(member("count", 1e30), HasSubstr("count: "));
  EXPECT_THAT(member("guarantees", {"fast"}), HasSubstr("guarantees[0]: 'fast' is none of"));
  EXPECT_THAT(member("colour", "red"), HasSubstr("it has a member 'colour'"));
  EXPECT_THAT(refusal_after([](json& file) { file.erase("count"); }),
              HasSubstr("the member 'count' is missing"));
  EXPECT_THAT(refusal_after([](json& file) { steps_of(file, 0) = 3; }),
              HasSubstr("schedules[0].steps: this has to be a list"));
}

/// The refusal of what lies a million levels deep needs no stack for each.
TEST(ScheduleFile, ListsInListsAreNoNumber) {
  constexpr std::size_t levels = 1'000'000;
  std::string text = ring_file().dump();
  const std::string ranks = "\"ranks\":3";
  std::string lists(levels, '[');
  lists.append(levels, ']');
  text.replace(text.find(ranks) + ranks.size() - 1, 1, lists);
  EXPECT_THAT(refusal_of(text), HasSubstr("ring.json: ranks: a list is not a whole number"));
}

TEST(ScheduleFormats, GoalHasAReceiveForEachSendOfItsLength) {
  const auto set =
      schedule_set(algorithm_named(Collective::all_reduce, "flat"), 2, {.count = Elements{100}});
  EXPECT_EQ(to_goal(set, Bytes{4}, {.nanoseconds_per_byte = 0.1}),
            "num_ranks 2\n"
            "\nrank 0 {\nl1: send 400b to 1 tag 0\nl2: recv 400b from 1 tag 0\nl2 requires l1\n"
            "l3: calc 80\nl3 requires l2\n}\n"
            "\nrank 1 {\nl1: send 400b to 0 tag 0\nl2: recv 400b from 0 tag 0\nl2 requires l1\n"
            "l3: calc 80\nl3 requires l2\n}\n");
}

TEST(ScheduleFormats, DotAndTextNameEveryStepAndSvgDrawsIt) {
  const auto set =
      schedule_set(algorithm_named(Collective::all_reduce, "ring"), 3, {.count = Elements{6}});
  const auto count = [](const std::string& text, std::string_view what) {
    int times = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++times;
    return times;
  };
  EXPECT_EQ(count(to_dot(set), "style=dashed"), 12);
  EXPECT_EQ(count(to_dot(set), "[label=\""), 42);
  EXPECT_EQ(count(to_text(set), "\n"), 1 + 3 + 42);
  EXPECT_EQ(count(to_svg(set), "rx=\"3\""), 42);
  EXPECT_EQ(count(to_svg(set), "class=\"message\""), 12);
}

/// A message takes a unit of time, as a step does.
TEST(ScheduleFormats, TimesFollowTheLongestChain) {
  const auto set =
      schedule_set(algorithm_named(Collective::all_reduce, "flat"), 2, {.count = Elements{1}});
  const auto times = step_times(set.schedules);
  EXPECT_EQ(times[Rank{0}], (std::vector{0, 1, 2, 3}));
}

}  // namespace
}  // namespace capstan
