// SPDX-License-Identifier: Apache-2.0

// `capstan explain` and `capstan tune` as programs: what is measured is found again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/processes/processes.hpp"
#include "tests/schema.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using Environment = std::vector<std::pair<std::string, std::string>>;

/// A folder for one test, and in it the configuration of a user without a profile.
struct Folder : test::TemporaryFolder {
  Environment environment() const {
    return {{"XDG_CONFIG_HOME", path()}, {"XDG_CONFIG_DIRS", *this / "none"}};
  }
};

CommandResult capstan(const Folder& folder, std::vector<std::string> arguments,
                      Environment more = {}) {
  arguments.insert(arguments.begin(), CAPSTAN_PROGRAM);
  Environment all = folder.environment();
  all.insert(all.end(), more.begin(), more.end());
  return run_command(arguments, all);
}

std::string text_of(const std::string& file) {
  std::ifstream stream{file};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

TEST(Explain, NamesEveryCandidateItsTimesAndWhyItWasNotTaken) {
  const Folder folder;
  const auto result = capstan(folder, {"explain", "all_reduce", "--bytes", "64k", "-n", "4",
                                       "--schedule", "1", "--svg", folder / "picture.svg"});
  ASSERT_EQ(result.status, 0) << result.output;
  for (const char* part :
       {"all_reduce(16384 x f32, sum), 65536 bytes, on 4 ranks on 1 host",
        "chosen:   ", "decided by: the model", "= latency", "+reduction", "rabenseifner/staged",
        "times as long", "made for several hosts", "schedule of rank 1", "    0  "})
    EXPECT_THAT(result.output, HasSubstr(part));
  const std::string svg = text_of(folder / "picture.svg");
  EXPECT_THAT(svg, HasSubstr("<svg xmlns"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_GT(occurrences(svg, "class=\"step\""), 8);
  EXPECT_EQ(occurrences(svg, ">rank "), 4 + occurrences(svg, "<title>rank "));
}

/// The same function decides in a run.
TEST(Explain, SaysWhatARunDoes) {
  const Folder folder;
  for (const char* bytes : {"64", "1M"}) {
    const auto told =
        capstan(folder, {"explain", "all_reduce", "--bytes", bytes, "-n", "2", "--json"});
    ASSERT_EQ(told.status, 0) << told.output;
    const auto ran = capstan(
        folder,
        {"perf", "all_reduce", "-n", "2", "-b", bytes, "-e", bytes, "--seconds", "0.01", "--json"},
        {{"CAPSTAN_AUTOTUNE", "0"}});
    ASSERT_EQ(ran.status, 0) << ran.output;
    EXPECT_EQ(json::parse(told.output)["algorithm"],
              json::parse(ran.output)["results"][0]["algorithm"]);
  }
}

TEST(Explain, RefusesWhatItCannotRead) {
  const Folder folder;
  const auto bad = capstan(folder, {"explain", "--rules", "all_reduce:0-4k:flut"});
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.output, HasSubstr("in column 17"));
  std::ofstream{folder / "bad.json"} << "{\n  oops";
  const auto file = capstan(folder, {"explain", "--profile", folder / "bad.json"});
  EXPECT_EQ(file.status, 2);
  EXPECT_THAT(file.output, HasSubstr("bad.json:2:3: this is no JSON"));
}

CommandResult tune(const Folder& folder, const char* sizes) {
  return capstan(folder, {"tune", "all_reduce,all_gather", "-n", "2", "--sizes", sizes, "--seconds",
                          "0.01", "--despite-load"});
}

std::string profile_in(const Folder& folder) {
  for (const auto& entry : std::filesystem::directory_iterator{folder.path() / "capstan/profiles"})
    return entry.path();
  return "none";
}

/// Makes all cells decide, as those of a quiet machine do.
void trust(const std::string& file) {
  json profile = json::parse(text_of(file));
  for (json& group : profile["groups"])
    for (json& cell : group["cells"]) cell["confidence"] = 1, cell["disturbed"] = false;
  std::ofstream{file} << profile;
}

TEST(Tune, WritesWhatTheLibraryThenFindsByItself) {
  const Folder folder;
  const auto first = tune(folder, "1k,64k");
  ASSERT_EQ(first.status, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("2 collectives x 2 sizes x 2 ranks, 4 cells: about 0.06 s"));
  EXPECT_THAT(first.output, HasSubstr("4 cells measured"));
  trust(profile_in(folder));
  const auto again = tune(folder, "1k,64k,256k");
  EXPECT_THAT(again.output, HasSubstr("4 of 6 cells are known"));
  EXPECT_THAT(again.output, HasSubstr("2 cells measured"));
  EXPECT_THAT(again.output, HasSubstr("by the model -> by this profile, as measured:\n"
                                      "    all_reduce   1K: "));
  trust(profile_in(folder));

  const auto told =
      capstan(folder, {"explain", "all_reduce", "--bytes", "8k", "-n", "2", "--json"});
  const json answer = json::parse(told.output);
  EXPECT_EQ(answer["decided_by"], "profile") << told.output;
  EXPECT_THAT(answer["source"], HasSubstr(profile_in(folder)));
  EXPECT_THAT(answer["reason"], HasSubstr("confidence"));

  const auto ran = capstan(folder, {"perf", "all_reduce", "-n", "2", "-b", "8k", "-e", "8k",
                                    "--seconds", "0.01", "--json"});
  const json result = json::parse(ran.output)["results"][0];
  EXPECT_THAT(result["explanation"], HasSubstr("by the profile"));
  EXPECT_EQ(result["algorithm"], answer["algorithm"]);
  const auto other =
      capstan(folder, {"explain", "all_reduce", "--bytes", "8k", "-n", "3", "--json"});
  EXPECT_EQ(json::parse(other.output)["decided_by"], "model") << "3 ranks were not measured";
}

TEST(Tune, ChecksProfilesAndIgnoresThoseOfOtherMachines) {
  const Folder folder;
  ASSERT_EQ(tune(folder, "1k").status, 0);
  const std::string file = profile_in(folder);
  trust(file);
  EXPECT_EQ(capstan(folder, {"tune", "--check", file}).status, 0);
  json profile = json::parse(text_of(file));
  profile["machine"]["id"] = "0123456789abcdef";
  json& cells = profile["groups"][0]["cells"];
  cells.push_back(cells[0]);
  cells.push_back(cells[0]);
  cells[2]["bytes"] = 16 << 20;
  std::ofstream{folder / "other.json"} << profile;
  const auto result = capstan(folder, {"tune", "--check", folder / "other.json"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("another machine"));
  EXPECT_THAT(result.output, HasSubstr("it stands there twice"));
  EXPECT_THAT(result.output, HasSubstr("nothing is known between"));
  const auto ran = capstan(
      folder, {"perf", "all_reduce", "-n", "2", "-b", "1k", "-e", "1k", "--seconds", "0.01"},
      {{"CAPSTAN_PROFILE", folder / "other.json"}});
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_EQ(occurrences(ran.output, "is ignored: it is of another machine"), 1) << ran.output;
}

TEST(Tune, JudgesTheModelByWhatWasMeasured) {
  const Folder folder;
  ASSERT_EQ(tune(folder, "1k,64k").status, 0);
  const std::string file = profile_in(folder);
  trust(file);
  ASSERT_EQ(tune(folder, "1k,64k").status, 0) << "fits the model to cells that decide";
  const auto one = capstan(folder, {"tune", "--judge", file});
  EXPECT_EQ(one.status, 0) << one.output;
  EXPECT_THAT(one.output, HasSubstr("of 4 cells"));
  EXPECT_THAT(one.output,
              HasSubstr("with the factors of " + file + ", which were fitted to these"));
  EXPECT_THAT(one.output, HasSubstr("pairs that differ by more than 20 %"));
  const auto both = capstan(folder, {"tune", "--judge", file + "," + file});
  EXPECT_THAT(both.output, HasSubstr("with the factors of " + file + ", measured by " + file));
  EXPECT_THAT(both.output, HasSubstr("the choice by " + file + ", measured by " + file))
      << "how good it is depends on the machine";
  json profile = json::parse(text_of(file));
  profile["machine"]["id"] = "0123456789abcdef";
  std::ofstream{folder / "other.json"} << profile;
  const auto other = capstan(folder, {"tune", "--judge", folder / "other.json"});
  EXPECT_NE(other.status, 0);
  EXPECT_THAT(other.output, HasSubstr("another machine"));
}

TEST(Tune, WhatTheAutotunerMeasuredIsKeptForLaterRuns) {
  const Folder folder;
  const std::vector<std::string> perf = {"perf", "all_reduce", "-n",     "2",         "-b", "8k",
                                         "-e",   "8k",         "--json", "--seconds", "0.2"};
  const auto first = capstan(folder, perf, {{"CAPSTAN_SAVE_PROFILE", "user"}});
  ASSERT_EQ(first.status, 0) << first.output;
  const std::string file = profile_in(folder);
  json profile = json::parse(text_of(file));
  json& group = profile["groups"][0];
  EXPECT_EQ(group["ranks"], 2);
  // Calls by which ranks agree on times may have been decided about, too.
  std::erase_if(group["cells"].get_ref<json::array_t&>(),
                [](const json& cell) { return cell["bytes"] != 8192; });
  ASSERT_EQ(group["cells"].size(), 1U);
  EXPECT_EQ(group["cells"][0]["collective"], "all_reduce");
  std::ofstream{file} << profile;
  trust(file);
  EXPECT_EQ(capstan(folder, {"tune", "--check", file}).status, 0);
  const auto again = capstan(folder, perf);
  const json result = json::parse(again.output)["results"][0];
  EXPECT_THAT(result["explanation"], HasSubstr("by the profile"));
  const auto other =
      capstan(folder, perf,
              {{"CAPSTAN_PROFILE", "none"}, {"CAPSTAN_SAVE_PROFILE", "/proc/nonexistent/p.json"}});
  EXPECT_EQ(other.status, 0) << "the results of the run are not lost";
  EXPECT_THAT(other.output,
              HasSubstr("CAPSTAN_SAVE_PROFILE: cannot write /proc/nonexistent/p.json"));
}

/// Runs a command while something else computes on every processor.
CommandResult capstan_on_a_busy_machine(const Folder& folder, const std::string& command) {
  return run_command(
      {"bash", "-c",
       "loops=(); for i in $(seq $(nproc)); do (while :; do :; done) & loops+=($!); done; " +
           std::string{CAPSTAN_PROGRAM} + " " + command +
           "; status=$?; kill ${loops[@]}; exit $status"},
      folder.environment());
}

TEST(Tune, OnABusyMachineItSaysSoAndDecidesNothingUntilAQuietRunReplacesIt) {
  const Folder folder;
  const std::string sweep = "tune all_reduce -n 2 --sizes 1K,64K --seconds 0.1";
  const auto busy = capstan_on_a_busy_machine(folder, sweep + " --patience 0.2");
  ASSERT_EQ(busy.status, 0) << busy.output;
  EXPECT_THAT(busy.output, HasSubstr("tune: still busy: load "));
  EXPECT_THAT(busy.output, HasSubstr("! decides nothing: busy: load "));
  const std::string file = profile_in(folder);
  const json profile = json::parse(text_of(file));
  EXPECT_EQ(profile["groups"][0]["cells"][0]["disturbed"], true);
  EXPECT_FALSE(profile["groups"][0].contains("model")) << "nor is the model fitted to it";
  const auto decided_by = [&](const char* bytes) {
    const auto told =
        capstan(folder, {"explain", "all_reduce", "--bytes", bytes, "-n", "2", "--json"});
    return json::parse(told.output)["decided_by"];
  };
  for (const char* bytes : {"512", "1k", "8k", "64k"}) EXPECT_EQ(decided_by(bytes), "model");
  const auto checked = capstan(folder, {"tune", "--check", file});
  EXPECT_EQ(checked.status, 1);
  EXPECT_THAT(checked.output, HasSubstr("it decides nothing (the machine was busy"));
  EXPECT_THAT(capstan(folder, {"tune", "--judge", file}).output,
              HasSubstr("not counted: the machine was busy"));

  const auto quiet = capstan(folder, {"tune", "all_reduce", "-n", "2", "--sizes", "1K,64K",
                                      "--seconds", "0.01", "--despite-load"});
  EXPECT_THAT(quiet.output, HasSubstr("2 cells measured"));
  trust(file);
  EXPECT_EQ(decided_by("1k"), "profile");
}

TEST(Tune, PerfMarksWhatABusyMachineDisturbed) {
  const Folder folder;
  const auto busy = capstan_on_a_busy_machine(
      folder, "perf all_reduce -n 2 -b 64 -e 64 --seconds 0.2 --patience 0");
  ASSERT_EQ(busy.status, 0) << busy.output;
  EXPECT_THAT(busy.output, HasSubstr("perf: the machine is busy: load "));
  EXPECT_THAT(busy.output, ::testing::ContainsRegex("\n#! .*busy: load "));
  EXPECT_THAT(busy.output, HasSubstr("# machine: busy: load "));
}

TEST(Tune, WritesEveryTimeOfEveryCandidate) {
  const Folder folder;
  const auto result =
      capstan(folder, {"tune", "all_reduce", "-n", "2", "--sizes", "1K", "--seconds", "0.01",
                       "--despite-load", "--json=" + (folder / "times.json")});
  ASSERT_EQ(result.status, 0) << result.output;
  const json document = json::parse(text_of(folder / "times.json"));
  EXPECT_THAT(test::Schema{RESULTS_SCHEMA}.faults(document), ::testing::IsEmpty());
  const json& ways = document["results"][0]["ways"];
  ASSERT_GT(ways.size(), 3U);
  EXPECT_TRUE(std::ranges::any_of(ways, [](const json& w) { return w["times_us"].size() == 9; }));
}

TEST(Tune, ANamedProfileThatIsMissingStopsAllRanks) {
  const Folder folder;
  const auto ran = capstan(folder, {"perf", "all_reduce", "-n", "2", "-b", "8", "-e", "8"},
                           {{"CAPSTAN_PROFILE", folder / "missing.json"}});
  EXPECT_NE(ran.status, 0);
  EXPECT_THAT(ran.output, HasSubstr("missing.json: the profile cannot be read"));
}

TEST(Tune, ExportsForOtherLibraries) {
  const Folder folder;
  ASSERT_EQ(tune(folder, "1k,64k").status, 0);
  const auto exported = [&](const char* format) {
    const auto result =
        capstan(folder, {"tune", "--export", format, "--output", profile_in(folder)});
    EXPECT_EQ(result.status, 0) << result.output;
    return result.output;
  };
  const json rules = json::parse(exported("openmpi6"));
  EXPECT_EQ(rules["module"], "tuned");
  EXPECT_EQ(rules["collectives"]["allgather"][0]["comm_size_max"], 2);
  EXPECT_EQ(rules["collectives"]["allgather"][0]["rules"][0]["msg_size_min"], 0);
  EXPECT_THAT(exported("ucc"), HasSubstr("allgather:0-"));
  EXPECT_THAT(exported("nccl"), HasSubstr("allreduce,0,"));

  EXPECT_THAT(exported("openmpi4"), HasSubstr("2 # collectives"));
}

/// The numbers of a rules file without its comments.
std::vector<long> numbers_in(const std::string& rules) {
  std::vector<long> numbers;
  std::istringstream lines{rules};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line.substr(0, line.find('#'))};
    for (long number = 0; words >> number;) numbers.push_back(number);
  }
  return numbers;
}

/// Reads the file as Open MPI 4.1 does: counts say how much follows. Messages of any length have a
/// rule.
void expect_well_formed(const std::string& rules) {
  const std::vector<long> all = numbers_in(rules);
  std::size_t at = 0;
  const auto next = [&] { return at < all.size() ? all[at++] : -1; };
  for (long collectives = next(); collectives > 0; --collectives) {
    EXPECT_GE(next(), 0) << "the collective";
    for (long ranks = next(); ranks > 0; --ranks) {
      EXPECT_GE(next(), 2) << "the number of ranks";
      long last = -1;
      for (long sizes = next(); sizes > 0; --sizes) {
        const long from = next();
        EXPECT_TRUE(last < 0 ? from == 0 : from > last) << from;
        last = from;
        EXPECT_GE(next(), 0) << "the algorithm";
        EXPECT_EQ(next() + next(), 0) << "fan and segment";
      }
    }
  }
  EXPECT_EQ(at, all.size()) << rules;
}

/// The rules file of Open MPI 4.1, which is what the machine has.
TEST(Tune, MpirunLoadsTheRulesFile) {
  const Folder folder;
  const std::string program = MPI_BESIDE "openmpi";
  if (!std::filesystem::exists(program)) GTEST_SKIP() << "built without libopenmpi-dev";
  ASSERT_EQ(tune(folder, "1k,64k").status, 0);
  const auto exported =
      capstan(folder, {"tune", "--export", "openmpi4", "--output", profile_in(folder)});
  expect_well_formed(exported.output);
  std::ofstream{folder / "rules.conf"} << exported.output;
  const auto loaded = run_command({"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n",
                                   "2", "--mca", "coll_tuned_use_dynamic_rules", "1", "--mca",
                                   "coll_tuned_dynamic_rules_filename", folder / "rules.conf",
                                   "--mca", "coll_base_verbose", "100", program, "first"});
  EXPECT_EQ(loaded.status, 0) << loaded.output;
  EXPECT_EQ(occurrences(loaded.output, " of 2: alike"), 4) << loaded.output;
}

/// The sessions in docs/tuning.md: commands, and the lines that they print up to the first number
/// or colon, as times and choices differ from machine to machine.
TEST(Tune, SessionsInTheDocumentAreTrue) {
  const Folder folder;
  std::istringstream document{text_of(DOCUMENT)};
  std::string output = "\n";
  int commands = 0, lines = 0;
  bool inside = false;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("```")) inside = line == "```console";
    if (!inside || line.empty() || line.starts_with("```")) continue;
    if (line.starts_with("$ capstan ")) {
      const auto result = run_command(
          {"sh", "-c",
           "cd " + folder.path().string() + " && " CAPSTAN_PROGRAM " " + line.substr(10)},
          folder.environment());
      EXPECT_EQ(result.status, 0) << line << "\n" << result.output;
      output = "\n" + result.output, ++commands;
      continue;
    }
    if (line.starts_with("* ") || line.starts_with("  ")) continue;  // candidates
    const std::string start = line.substr(0, line.find_first_of(":0123456789"));
    EXPECT_THAT(output, HasSubstr("\n" + start)) << line;
    ++lines;
  }
  EXPECT_EQ(commands, 8);
  EXPECT_GT(lines, 10);
}

}  // namespace
}  // namespace capstan
