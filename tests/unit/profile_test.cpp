// SPDX-License-Identifier: Apache-2.0

// Rules, profiles and what explains a decision: which comes first, and what is said of the others.

#include "core/profiles/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "capstan/error.hpp"
#include "capstan/version.hpp"
#include "core/profiles/find_profile.hpp"
#include "core/schedule/selection/survey.hpp"
#include "tests/conformance/captured_output.hpp"
#include "tests/schema.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/unit/measured_cells.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;

/// Between 1 KiB and 4 KiB flat grows from 1 to 4 us, and direct falls from 4 to 1 us.
MeasuredTimes crossing() {
  MeasuredTimes times{"the profile test"};
  times.add(cell(4096, {way("flat", Protocol::staged, 4), way("direct", Protocol::staged, 1)}));
  times.add(cell(1024, {way("flat", Protocol::staged, 1), way("direct", Protocol::staged, 4)}));
  return times;
}

std::string refusal(const char* rules) {
  try {
    AlgorithmRules::parse(rules);
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "none";
}

TEST(AlgorithmRules, ConditionsOnRanksHostsAndTypes) {
  const auto rules = AlgorithmRules::parse(
      "all_reduce:0-4k ranks=2-8 hosts=1 type=f32|f64:flat,ranks=9-inf:ring/staged/4,direct");
  const auto name = [&](RuledCall call) { return rules.find(call)->algorithm->name; };
  EXPECT_EQ(name({.bytes = Bytes{4095}, .ranks = 8}), "flat");
  EXPECT_EQ(name({.bytes = Bytes{4096}, .ranks = 8}), "direct");
  EXPECT_EQ(name({.bytes = Bytes{8}, .ranks = 2, .hosts = 2}), "direct");
  EXPECT_EQ(name({.bytes = Bytes{8}, .ranks = 2, .type = DataType::f16}), "direct");
  EXPECT_EQ(name({.bytes = Bytes{8}, .ranks = 9}), "ring");
  EXPECT_EQ(rules.find({.ranks = 9})->times_shorter, 4u);
}

TEST(AlgorithmRules, ConditionsOnMemory) {
  const auto rules = AlgorithmRules::parse("all_reduce:memory=device:flat,0-4k memory=host:ring");
  EXPECT_EQ(rules.find({.memory = MemoryKind::device})->algorithm->name, "flat");
  EXPECT_EQ(rules.find({.memory = MemoryKind::host})->algorithm->name, "ring");
  EXPECT_EQ(rules.find({.bytes = Bytes{4096}}), nullptr);
  EXPECT_THAT(refusal("all_reduce:memory=gpu:flat"), HasSubstr("'gpu' in column 19 of"));
}

TEST(AlgorithmRules, ErrorsPointAtTheColumn) {
  EXPECT_THAT(refusal("all_reduce:0-4k:flat,4k-x:ring"), HasSubstr("'4k-x' in column 22 of"));
  EXPECT_THAT(refusal("all_reduce:0-4k:flut"), HasSubstr("'flut' in column 17 of"));
  EXPECT_THAT(refusal("all_reduce:ranks=8-2:flat"), HasSubstr("'8-2' in column 18 of"));
  EXPECT_THAT(refusal("all_reduce:type=f31:flat"), HasSubstr("'f31' in column 17 of"));
  EXPECT_THAT(refusal("all_reduce:color=red:flat"), HasSubstr("conditions are sizes, ranks="));
  EXPECT_THAT(refusal("all_reduce:flat/staged/0"), HasSubstr("'0' in column 24 of"));
  EXPECT_THAT(refusal("all_reduce:flat;brodcast:flat"), HasSubstr("in column 17 of"));
}

TEST(Profile, BetweenSizesTimesAreInterpolated) {
  const MeasuredTimes times = crossing();
  const auto best = [&](std::uint64_t bytes) {
    const auto found = times.at(Collective::all_reduce, 4, 1, Bytes{bytes});
    return found.ways.empty() ? "" : found.ways.front().algorithm->name;
  };
  EXPECT_EQ(best(1024), "flat");
  EXPECT_EQ(best(1900), "flat");
  EXPECT_EQ(best(2200), "direct");
  EXPECT_EQ(best(4096), "direct");
  EXPECT_EQ(best(256), "flat");
  EXPECT_EQ(best(255), "") << "too far below";
  EXPECT_EQ(best(16384), "direct");
  EXPECT_EQ(best(16385), "") << "too far above";
  EXPECT_NEAR(times.at(Collective::all_reduce, 4, 1, Bytes{2048}).ways.front().nanoseconds, 2000,
              1);
  EXPECT_TRUE(times.at(Collective::all_reduce, 3, 1, Bytes{1024}).ways.empty());
  EXPECT_TRUE(times.at(Collective::broadcast, 4, 1, Bytes{1024}).ways.empty());
}

/// Packets are measured for short calls only: what is known at one of two sizes counts less the
/// farther it is away.
TEST(Profile, WhatWasMeasuredAtOneSizeOnlyCountsNearIt) {
  MeasuredTimes times{"test"};
  times.add(
      cell(1024, {way("flat", Protocol::inline_packets, 1), way("flat", Protocol::staged, 5)}));
  times.add(cell(65536, {way("direct", Protocol::staged, 8), way("flat", Protocol::staged, 16)}));
  const auto best = [&](std::uint64_t bytes) {
    const MeasuredWay way = times.at(Collective::all_reduce, 4, 1, Bytes{bytes}).ways.front();
    return std::pair{way.algorithm->name, way.protocol};
  };
  EXPECT_EQ(best(2048), (std::pair{std::string_view{"flat"}, Protocol::inline_packets}));
  EXPECT_EQ(best(32768), (std::pair{std::string_view{"direct"}, Protocol::staged}));
}

TEST(Profile, ARuleComesBeforeAProfileAndAProfileBeforeTheModel) {
  const MeasuredTimes times = crossing();
  const auto decided = [&](std::uint64_t bytes, const char* rule) {
    return decide(all_reduce(bytes), 4, AlgorithmRules::parse(rule), SumOrder::any, {}, &times);
  };
  EXPECT_EQ(decided(1024, "all_reduce:ring").source, Source::rule);
  EXPECT_EQ(decided(1024, "").source, Source::profile);
  EXPECT_EQ(decided(1024, "").choice.algorithm->name, "flat");
  EXPECT_EQ(decided(1024, "").choice.protocol, Protocol::staged);
  EXPECT_THAT(decided(1024, "").choice.reason, HasSubstr("measured 1.00 us, confidence 90 %"));
  EXPECT_EQ(decided(1 << 20, "").source, Source::model);
}

TEST(Profile, LimitsAreHonoured) {
  MeasuredTimes times{"test"};
  times.add(cell(1024, {way("rabenseifner", Protocol::staged, 1),
                        way("recursive_doubling", Protocol::staged, 2),
                        way("flat", Protocol::read_input, 2), way("flat", Protocol::staged, 3)}));
  const Choice sum = choose(all_reduce(1024), 4, {}, SumOrder::any, {}, &times);
  EXPECT_EQ(sum.algorithm->name, "flat") << "the model's choice is reproducible: so is this one";
  EXPECT_EQ(sum.protocol, Protocol::staged) << "no memory can be read";
  Call whole = all_reduce(1024);
  whole.type = DataType::i32;
  EXPECT_EQ(choose(whole, 4, {}, SumOrder::any, {}, &times).algorithm->name, "rabenseifner");
  EXPECT_EQ(choose(whole, 4, {}, SumOrder::ranks, {}, &times).algorithm->name,
            "recursive_doubling");
}

TEST(Rules, ThatCannotBeFollowedArePassedOverAndNamed) {
  const auto rules = AlgorithmRules::parse("all_reduce:ring,type=f32:flat");
  const Survey in_order = survey(all_reduce(1024), 4, rules, SumOrder::ranks, {}, nullptr);
  EXPECT_EQ(in_order.decision.choice.algorithm->name, "flat");
  ASSERT_EQ(in_order.rules_passed_over.size(), 1u);
  EXPECT_THAT(in_order.rules_passed_over.front(), HasSubstr("all_reduce:ring: the operation is"));
  EXPECT_TRUE(
      survey(all_reduce(1024), 4, rules, SumOrder::any, {}, nullptr).rules_passed_over.empty());
}

TEST(Survey, HasEveryCandidateOnceWithAVerdict) {
  for (const Hosts& hosts : {Hosts{4}, Hosts{{0, 0, 1, 1}}, Hosts{64}})
    for (const Collective collective : all_collectives()) {
      if (has_counts(collective)) continue;
      Call call = all_reduce(1 << 20);
      call.collective = collective;
      const LinkModel model{.reads_peers = hosts.single()};
      const Survey all = survey(call, hosts, {}, SumOrder::any, model, nullptr);
      EXPECT_EQ(all.ways.size(), algorithms(collective).size() * std::size(all_protocols));
      EXPECT_TRUE(all.ways.front().chosen);
      int chosen = 0;
      for (const SurveyedWay& each : all.ways) {
        chosen += each.chosen;
        EXPECT_FALSE(each.verdict.empty()) << each.algorithm->name;
        if (each.predicted) {
          EXPECT_GE(each.predicted->waiting, -1e-6);
          EXPECT_GE(each.predicted->latency, 0);
        }
      }
      EXPECT_EQ(chosen, 1) << name_of(collective);
      EXPECT_NEAR(all.ways.front().predicted->total(), all.decision.choice.nanoseconds, 1e-3);
    }
}

TEST(PredictedTime, ItsPartsMoveWithWhatTheyStandFor) {
  const auto parts = [](std::uint64_t bytes, const LinkModel& model) {
    const auto ways = candidates_of(algorithm_named(Collective::all_reduce, "direct"), 4,
                                    all_reduce(bytes), model, Protocol::staged);
    return ways.front().parts;
  };
  const LinkModel usual{}, slow{.reduce_byte = 0.8};
  EXPECT_GT(parts(1 << 20, usual).bandwidth, 10 * parts(1 << 10, usual).bandwidth);
  EXPECT_GT(parts(1 << 20, slow).reduction, 50 * parts(1 << 20, usual).reduction);
  EXPECT_LT(parts(1 << 20, usual).latency, 2 * parts(1 << 10, usual).latency + 1);
}

std::string complaint_about_profile(const std::string& text) {
  try {
    parse_profile(text, "machine.json");
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "none";
}

TEST(Profile, AFileIsReadAsItWasWritten) {
  const std::string text = to_json(small_profile());
  EXPECT_EQ(to_json(parse_profile(text, "machine.json")), text);
}

TEST(Profile, FollowsTheSchemaInTheRepository) {
  const test::Schema schema{CAPSTAN_SOURCE_DIR "/docs/profile.schema.json"};
  auto document = nlohmann::json::parse(to_json(small_profile()));
  EXPECT_THAT(schema.faults(document), ::testing::IsEmpty());
  document["groups"][0]["cells"][0]["confidence"] = 2;
  document["groups"][0]["color"] = "red";
  EXPECT_THAT(schema.faults(document),
              ::testing::UnorderedElementsAre("/groups/0/cells/0/confidence: above the maximum",
                                              "/groups/0: has an unknown color"));
}

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  text.replace(text.find(part), part.size(), by);
  return text;
}

TEST(Profile, BadFilesSayWhere) {
  const std::string good = to_json(small_profile());
  EXPECT_THAT(complaint_about_profile("{\n  \"format\": 1,\n  oops"),
              HasSubstr("machine.json:3:3: this is no JSON"));
  EXPECT_THAT(complaint_about_profile(replaced(good, "\"flat\"", "\"flut\"")),
              HasSubstr("/groups/0/cells/0/ways/0/algorithm: all_reduce has no algorithm 'flut'"));
  EXPECT_THAT(complaint_about_profile(replaced(good, "\"flat\"", "\"flut\"")),
              HasSubstr("machine.json:13:"));
  EXPECT_THAT(complaint_about_profile(replaced(good, "\"ranks\": 4", "\"ranks\": -4")),
              HasSubstr("/groups/0/ranks"));
  EXPECT_THAT(complaint_about_profile(replaced(good, "\"format\": 1", "\"format\": 9")),
              HasSubstr("format 9"));
  EXPECT_THAT(complaint_about_profile("{\n \"format\": 1e999}"),
              HasSubstr("machine.json:2:12: this is no JSON (a number that no double holds)"));
  EXPECT_THAT(complaint_about_profile(R"({"name": "\"1e999", "x": 1e999})"),
              HasSubstr("machine.json:1:26: this is no JSON"));
  EXPECT_THAT(
      complaint_about_profile("{\"y\": 0." + std::string(300, '0') + "1e400, \"x\": 1e400}"),
      HasSubstr("machine.json:1:321: this is no JSON"));
  EXPECT_THAT(complaint_about_profile(replaced(good, "\"ranks\": 4", "\"ranks\": 4, \"ranks\": 5")),
              HasSubstr("the key 'ranks' stands a second time"));
  EXPECT_THAT(complaint_about_profile("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(complaint_about_profile("{}"), HasSubstr("'format' is missing"));
  EXPECT_THAT(complaint_about_profile(""), HasSubstr("capstan tune"));
}

/// Larger ones would be infinite between two sizes, or could not be read when they are written.
TEST(Profile, NumbersThatAreOutOfBoundsAreRefused) {
  Profile profile = small_profile();
  profile.groups[0].model = ModelScale{};
  const auto refusal_of_member = [&](const char* pointer, const nlohmann::json& value) {
    auto document = nlohmann::json::parse(to_json(profile));
    document.at(nlohmann::json::json_pointer{pointer}) = value;
    return complaint_about_profile(document.dump());
  };
  EXPECT_THAT(refusal_of_member("/groups/0/cells/0/ways/0/microseconds", 1e300),
              HasSubstr("/ways/0/microseconds: expected a number from 0 to 1000000000000"));
  EXPECT_THAT(refusal_of_member("/groups/0/cells/0/ways/0/spread", 1e306),
              HasSubstr("/ways/0/spread: expected a number from 0 to"));
  EXPECT_THAT(refusal_of_member("/groups/0/cells/0/ways/0/times_shorter_blocks", 1 << 30),
              HasSubstr("expected a whole number from 0 to 1048576"));
  EXPECT_THAT(refusal_of_member("/groups/0/cells/0/bytes", std::int64_t{1} << 60),
              HasSubstr("/cells/0/bytes: expected a whole number from 0 to"));
  EXPECT_THAT(refusal_of_member("/groups/0/cells/0/confidence", 2),
              HasSubstr("/cells/0/confidence: expected a number from 0 to 1"));
  EXPECT_THAT(refusal_of_member("/groups/0/model/calls", 1e-9),
              HasSubstr("/groups/0/model/calls: expected a number from 0.001 to 1000"));
}

/// A folder in which the user's profiles lie, for the time of a test.
struct ConfigFolder : test::TemporaryFolder {
  ConfigFolder() {
    setenv("XDG_CONFIG_HOME", path().c_str(), 1);
    setenv("XDG_CONFIG_DIRS", (path() / "system").c_str(), 1);
  }
  ~ConfigFolder() {
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("XDG_CONFIG_DIRS");
  }
  static void write(const std::filesystem::path& file, const std::string& text) {
    std::filesystem::create_directories(file.parent_path());
    std::ofstream{file} << text;
  }
};

TEST(Profile, FilesOfTheUserLieInFoldersByKind) {
  const ConfigFolder folder;
  const Fingerprint machine{.id = "1f", .description = "a machine"};
  EXPECT_EQ(user_profile_path(machine), user_file(machine, "profiles"));
  EXPECT_EQ(user_file(machine, "clusters"), folder.path() / "capstan/clusters/1f.json");
}

TEST(Profile, TheUsersComesBeforeTheSystems) {
  const ConfigFolder folder;
  const Machine machine = Machine::discover();
  const Fingerprint own = Fingerprint::of(machine);
  EXPECT_TRUE(find_profile("", machine).text.empty());
  const auto system = folder.path() / "system/capstan/profiles" / (own.id + ".json");
  ConfigFolder::write(system, to_json(small_profile()));
  EXPECT_EQ(find_profile("", machine).file, system);
  ConfigFolder::write(user_profile_path(own), to_json(small_profile()));
  EXPECT_EQ(find_profile("", machine).file, user_profile_path(own));
  EXPECT_TRUE(find_profile("none", machine).text.empty());
  EXPECT_EQ(find_profile(system, machine).file, system);
  EXPECT_THROW(find_profile(folder / "missing.json", machine), InvalidArgument);
  ConfigFolder::write(user_profile_path(own), "{");
  EXPECT_TRUE(find_profile("", machine).text.empty()) << "bad: ignored, with a warning";
  EXPECT_THROW(find_profile(user_profile_path(own), machine), InvalidArgument) << "asked for";
}

TEST(Profile, OneThatDoesNotCountIsNamedInTheLog) {
  const ConfigFolder folder;
  Profile other = small_profile();
  other.machine.id = "0";
  const auto file = folder.path() / "other.json";
  ConfigFolder::write(file, to_json(other));
  const conformance::CapturedOutput log;
  EXPECT_TRUE(find_profile(file, Machine::discover()).text.empty());
  EXPECT_THAT(log.text(), HasSubstr(file.string() + " is ignored: it is of another machine"));
}

TEST(Profile, OfAnotherMachineOrVersionSaysSo) {
  Profile profile = small_profile();
  const Fingerprint own = profile.machine;
  EXPECT_EQ(mismatch(profile, own), "");
  profile.machine.id = "0";
  EXPECT_THAT(mismatch(profile, own), HasSubstr("another machine"));
  profile.version = "0.0.1";
  EXPECT_THAT(mismatch(profile, own), HasSubstr("version 0.0.1 of Capstan"));
}

TEST(Profile, SaysNothingBetweenSizesThatAreFarApart) {
  MeasuredTimes times{"the profile test"};
  times.add(cell(8, {way("flat", Protocol::staged, 1)}));
  times.add(cell(1 << 24, {way("direct", Protocol::staged, 900)}));
  const auto known = [&](std::uint64_t bytes) {
    return !times.at(Collective::all_reduce, 4, 1, Bytes{bytes}).ways.empty();
  };
  EXPECT_TRUE(known(8));
  EXPECT_TRUE(known(32));
  EXPECT_FALSE(known(65536)) << "trials or the model decide there";
  EXPECT_TRUE(known(1 << 22));
}

TEST(Profile, NumbersOfRanksAndHostsAreOnesThatExist) {
  const auto refusal_of_group = [](int ranks, int hosts) {
    Profile profile = small_profile();
    profile.groups[0].ranks = ranks;
    profile.groups[0].hosts = hosts;
    try {
      parse_profile(to_json(profile), "p.json");
    } catch (const InvalidArgument& error) {
      return std::string{error.what()};
    }
    return std::string{"none"};
  };
  EXPECT_EQ(refusal_of_group(4, 2), "none");
  EXPECT_THAT(refusal_of_group(0, 1), HasSubstr("/groups/0/ranks"));
  EXPECT_THAT(refusal_of_group(2'000'000'000, 1), HasSubstr("expected a number from 1"));
  EXPECT_THAT(refusal_of_group(2, 3), HasSubstr("no more hosts than ranks"));
}

}  // namespace
}  // namespace capstan
