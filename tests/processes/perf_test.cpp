// SPDX-License-Identifier: Apache-2.0

// `capstan perf` as its users see it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "capstan/collective.hpp"
#include "tests/processes/perf_commands.hpp"
#include "tests/processes/processes.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

TEST(Perf, BadOptionsAreRefusedOnce) {
  const auto algorithm =
      run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "--algorithm", "quantum"});
  EXPECT_EQ(algorithm.status, 2);
  EXPECT_THAT(algorithm.output, HasSubstr("choose one of flat,"));
  const auto size = run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "-b", "lots"});
  EXPECT_EQ(size.status, 2);
  EXPECT_THAT(size.output, HasSubstr("--min-bytes"));
  EXPECT_EQ(occurrences(size.output, "capstan: "), 1) << size.output;
  for (const char* collective : {"all_reduce", "all_gather", "all_to_all_v"}) {
    const auto nothing =
        run_command({CAPSTAN_PROGRAM, "perf", collective, "-n", "2", "-b", "3", "-e", "3"});
    EXPECT_EQ(nothing.status, 2) << nothing.output;
    EXPECT_THAT(nothing.output, HasSubstr("--max-bytes 3"));
  }
}

TEST(Perf, NamesTheChoices) {
  EXPECT_THAT(refused_by_perf({"all_shrink"}), HasSubstr("all_reduce"));
  EXPECT_THAT(refused_by_perf({"--types", "f33"}), HasSubstr("'f33': choose from i8, "));
  EXPECT_THAT(refused_by_perf({"--ops", "summ"}), HasSubstr("'summ': choose from sum, "));
  EXPECT_THAT(refused_by_perf({"--algorithm", "ring/telepathy"}), HasSubstr("staged"));
  EXPECT_THAT(refused_by_perf({"--buffers", "borrowed"}),
              HasSubstr("borrowed not in {plain,allocated}"));
  const auto rule =
      run_command({CAPSTAN_PROGRAM, "perf", "-n", "1"}, {{"CAPSTAN_ALGORITHM", "ring"}});
  EXPECT_EQ(rule.status, 2) << rule.output;
  EXPECT_THAT(rule.output, HasSubstr("all_to_all_v"));
}

TEST(Perf, RefusesOptionsThatDoNothing) {
  EXPECT_THAT(refused_by_perf({"--sizes", "8", "-b", "8"}), HasSubstr("--sizes says it all"));
  EXPECT_THAT(refused_by_perf({"--unbound"}), HasSubstr("--unbound: only with --against"));
  EXPECT_THAT(refused_by_perf({"--skew", "nan"}), HasSubstr("--skew"));
  EXPECT_THAT(refused_by_perf({"--against", "gloo", "--ranks", "2,4096", "--skew", "5"}),
              HasSubstr("--skew: calls are measured alone only"));
  EXPECT_THAT(refused_by_perf({"--root", "1"}), HasSubstr("--root: all_reduce has no root"));
  EXPECT_THAT(refused_by_perf({"broadcast", "--ops", "max"}), HasSubstr("--ops: broadcast has no"));
  EXPECT_THAT(refused_by_perf({"broadcast", "--root", "2"}),
              HasSubstr("--root 2: there are 2 ranks"));
  for (const char* option : {"--min-bytes", "--max-bytes", "--factor", "--types"})
    EXPECT_THAT(
        refused_by_perf({"barrier", option, option == std::string{"--types"} ? "f32" : "8"}),
        HasSubstr(fmt::format("{}: barrier has no buffers", option)));
  EXPECT_THAT(refused_by_perf({"--ranks", "4097"}),
              HasSubstr("--ranks: '4097' is not a whole number from 1 to 4096"));
  EXPECT_THAT(refused_by_perf({"--agent", "ssh {host}"}), HasSubstr("--agent: it is for other"));
  for (const char* option : {"--factor", "--types", "--ops", "--algorithm", "--root"})
    EXPECT_THAT(refused_by_perf({"--against", "gloo", option, "4"}),
                HasSubstr(fmt::format("{}: not with --against", option)));
  EXPECT_THAT(refused_by_perf({"--against", "gloo", "--sizes", "8", "-e", "8"}),
              HasSubstr("--max-bytes: --sizes says it all"));
}

TEST(Perf, AFileThatCannotBeWrittenIsFoundBeforeAnythingIsMeasured) {
  const std::string file = "/proc/no/such/folder/results";
  for (const auto& option :
       {std::vector{"--json=" + file}, std::vector{std::string{"--json"}, file}}) {
    std::vector<std::string> words{CAPSTAN_PROGRAM, "perf", "-n", "2", "-e", "8"};
    words.insert(words.end(), option.begin(), option.end());
    const auto result = run_command(words);
    EXPECT_EQ(result.status, 1);
    EXPECT_THAT(result.output, HasSubstr("cannot write '" + file));
    EXPECT_THAT(result.output, ::testing::Not(HasSubstr("# all_reduce over")));
  }
}

TEST(Perf, ASweepEndsWithTheLargestSize) {
  const auto result = run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "-b", "8", "-e", "1000",
                                   "-f", "5", "--rounds", "2", "--seconds", "0.001", "--json"});
  EXPECT_EQ(result.status, 0) << result.output;
  for (const char* size : {"8", "40", "200", "1000"})
    EXPECT_EQ(occurrences(result.output, fmt::format("\"bytes\": {},", size)), 1) << result.output;
}

TEST(Perf, MeasuresTheSizesThatAreNamed) {
  const auto result = run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "--sizes", "64,8K", "--json",
                                   "--rounds", "2", "--seconds", "0.001"});
  EXPECT_EQ(result.status, 0) << result.output;
  const auto results = nlohmann::json::parse(result.output)["results"];
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0]["bytes"], 64);
  EXPECT_EQ(results[1]["bytes"], 8192);
}

/// Names and options as users of nccl-tests and mpirun type them.
TEST(Perf, KnowsHabitsOfOtherBenchmarks) {
  const auto run = [](std::vector<std::string> words) {
    words.insert(words.begin(), {CAPSTAN_PROGRAM, "perf"});
    words.insert(words.end(), {"--seconds", "0.001", "--json"});
    const auto result = run_command(words);
    EXPECT_EQ(result.status, 0) << result.output;
    return nlohmann::json::parse(result.output)["results"][0];
  };
  const auto reduced = run(
      {"reduce", "-np", "2", "-o", "max", "-d", "f64", "-r", "1", "-c", "0", "-b", "8", "-e", "8"});
  EXPECT_EQ(reduced["op"], "max");
  EXPECT_EQ(reduced["type"], "f64");
  EXPECT_EQ(reduced["ranks"], 2);
  for (const auto& [theirs, ours] :
       std::map<std::string, std::string>{{"allreduce", "all_reduce"},
                                          {"reducescatter", "reduce_scatter"},
                                          {"alltoall", "all_to_all"},
                                          {"bcast", "broadcast"}})
    EXPECT_EQ(run({theirs, "-np", "2", "--sizes", "64"})["collective"], ours);
}

TEST(Perf, EndsWithAnErrorBelowABandwidth) {
  const auto status = [](const char* bandwidth) {
    return run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "--sizes", "64K", "--seconds", "0.001",
                        "--min-busbw", bandwidth})
        .status;
  };
  EXPECT_EQ(status("0.000001"), 0);
  EXPECT_EQ(status("1000000"), 1);
}

TEST(Perf, ASizeTakesNotMuchLongerThanAskedForAndSaysWhatThatMeans) {
  const auto result = run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "-b", "16M", "-e", "16M",
                                   "--rounds", "1000", "--seconds", "0.001", "--json"});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("\"settled\": false"));
  EXPECT_THAT(result.output, HasSubstr("\"calls\": 1,"));
  const auto table = run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "-b", "16M", "-e", "16M",
                                  "--no-check", "--seconds", "0.001"});
  EXPECT_EQ(table.status, 0) << table.output;
  EXPECT_THAT(table.output, HasSubstr("#! not settled"));
  const auto chosen =
      run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "-b", "16M", "-e", "16M", "--no-check",
                   "--seconds", "0.001", "--algorithm", "direct/staged"});
  EXPECT_EQ(chosen.status, 0) << chosen.output;
  EXPECT_THAT(chosen.output, ::testing::Not(HasSubstr("not settled")));
}

TEST(Perf, WrongValuesAreAFailure) {
  const auto result = run_command({BROKEN_CAPSTAN, "perf", "scan", "-n", "2", "-b", "8", "-e", "8",
                                   "--rounds", "2", "--seconds", "0.01"});
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_THAT(result.output, ContainsRegex("# wrong values: [1-9]"));
}

TEST(Perf, MeasuresWhatHasLengthsOfItsOwnForEachRank) {
  for (const Collective collective : all_collectives()) {
    if (!has_counts(collective)) continue;
    for (const char* ranks : {"2", "3"}) {
      const auto result =
          run_command({CAPSTAN_PROGRAM, "perf", std::string{name_of(collective)}, "-n", ranks, "-b",
                       "64", "-e", "64K", "-f", "32", "--rounds", "2", "--seconds", "0.01"},
                      {{"CAPSTAN_AUTOTUNE", "0"}});  // nobody waits for its decisions
      EXPECT_EQ(result.status, 0) << name_of(collective) << " on " << ranks << result.output;
      EXPECT_THAT(result.output, HasSubstr("# wrong values: 0"));
      EXPECT_THAT(result.output, ContainsRegex(" 6553[26] "));
    }
  }
}

TEST(Perf, RanksThatSeeOtherCachesCutCallsAlike) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "run", "-n", "2", "--bind", "none", "--", "sh", "-c",
                   "export HWLOC_SYNTHETIC=\"pack:1 l3:1(size=$((32 - 28 * CAPSTAN_RANK))MB) "
                   "l2:64(size=512KB) core:1 pu:1\"; exec " CAPSTAN_PROGRAM
                   " perf -b 8M -e 8M --algorithm direct/write_output --seconds 0.05"});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("wrong values: 0"));
}

TEST(Perf, ComparesWithAPeer) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "perf", "all_reduce,broadcast,barrier", "-n", "2", "--against",
                   "openmpi", "--sizes", "8,64K", "--rounds", "2", "--seconds", "0.01"});
  if (result.output.find("was not built") != std::string::npos)
    GTEST_SKIP() << "no libopenmpi-dev, or built with sanitizers";
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("2 ranks, openmpi-sm: coll_sm_priority"));
  EXPECT_THAT(result.output, HasSubstr("(geometric mean)"));
  EXPECT_THAT(result.output, HasSubstr("# the same for calls that are alone: "));
  EXPECT_THAT(result.output, HasSubstr("# cells lost: "));
  for (const char* parts : {"reduce and broadcast", "reduce_scatter and all_gather"})
    EXPECT_THAT(result.output,
                ContainsRegex(fmt::format("# all_reduce takes [0-9.]+ to [0-9.]+ times as long as "
                                          "{} in its place",
                                          parts)));
  EXPECT_THAT(result.output, ::testing::Not(HasSubstr("left out")));
  EXPECT_THAT(result.output, ::testing::Not(HasSubstr("wrong")));
}

TEST(Perf, ComparesWithBuffersOfItsOwnWithoutCoresOfItsOwnAndWithRanksThatComeLate) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "perf", "all_gather,barrier", "-n", "2", "--against", "openmpi",
                   "--sizes", "8,64K", "--rounds", "2", "--seconds", "0.01", "--buffers",
                   "allocated", "--unbound", "--skew", "20"});
  if (result.output.find("was not built") != std::string::npos)
    GTEST_SKIP() << "no libopenmpi-dev, or built with sanitizers";
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("ranks not bound to cores, Capstan's buffers allocated by "
                                       "it, ranks come to calls that are alone within 20 us"));
  EXPECT_THAT(result.output, HasSubstr("# the same for calls that are alone: "));
  EXPECT_THAT(result.output, ::testing::Not(HasSubstr("left out")));
  EXPECT_THAT(result.output, ::testing::Not(HasSubstr("wrong")));
}

/// A single call takes longer than its share of the time: there are few rounds, not all.
TEST(Perf, ComparesForAsLongAsItIsTold) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "perf", "all_reduce", "-n", "2", "--against", "gloo", "--sizes",
                   "4M", "--rounds", "200", "--seconds", "0.0001", "--json"});
  if (result.output.find("was not built") != std::string::npos)
    GTEST_SKIP() << "no libgloo-dev, or built with sanitizers";
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, ContainsRegex("\"rounds\": (3|12)[,\n]"));
}

TEST(Perf, ComparesWithPartsOnOddNumbersOfRanks) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "perf", "all_reduce", "-n", "3", "--against", "gloo", "--sizes",
                   "8,4K", "--rounds", "2", "--seconds", "0.01", "--json"});
  if (result.output.find("was not built") != std::string::npos)
    GTEST_SKIP() << "no libgloo-dev, or built with sanitizers";
  EXPECT_EQ(result.status, 0) << result.output;
  const auto begin = result.output.find("\"cliff_checks\"");
  ASSERT_NE(begin, std::string::npos);
  const std::string checks = result.output.substr(begin, result.output.find(']') - begin);
  EXPECT_THAT(checks, HasSubstr("all_reduce of 8 on 3 ranks"));
  EXPECT_EQ(checks.find("\"reduce_scatter and all_gather\""),
            checks.rfind("\"reduce_scatter and all_gather\""))
      << "of 4 KiB only";
  EXPECT_THAT(checks, HasSubstr("\"reduce_scatter and all_gather\""));
}

TEST(Perf, KnowsItsPeers) {
  const auto result = run_command({CAPSTAN_PROGRAM, "perf", "--against", "telepathy"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.output, HasSubstr("choose from openmpi, mpich, gloo"));
}

/// As scripts/quickstart leaves the program: alone. One line, whose options exist, builds the rest.
TEST(Perf, SaysWhatBuildsThePeersThatItHasNot) {
  const test::TemporaryFolder folder;
  std::filesystem::copy_file(CAPSTAN_PROGRAM, folder / "capstan");
  for (const char* const peer : {"openmpi", "mpich", "gloo"}) {
    const auto result =
        run_command({folder / "capstan", "perf", "all_reduce", "-n", "2", "--against", peer});
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.output, HasSubstr("`scripts/setup && scripts/build --against`"));
  }
  const auto help = run_command({BUILD_SCRIPT, "--help"});
  EXPECT_THAT(help.output, HasSubstr("--against "));
}

/// Against an MPI of today, where scripts/setup --peers has been here; else the error says how.
TEST(Perf, ComparesWithLibrariesOfToday) {
  for (const std::string peer : {"openmpi5", "mpich5", "intelmpi"}) {
    const auto result = run_command({CAPSTAN_PROGRAM, "perf", "all_reduce", "-n", "2", "--against",
                                     peer, "--sizes", "8", "--rounds", "1", "--seconds", "0.01"});
    if (result.output.find("is not installed") != result.output.npos) {
      EXPECT_EQ(result.status, 2);
      EXPECT_THAT(result.output, HasSubstr(peer + " is not installed: `scripts/setup --peers`"));
    } else {
      EXPECT_EQ(result.status, 0) << result.output;
      EXPECT_THAT(result.output, HasSubstr("# 2 ranks, " + peer + ": "));
    }
  }
}

TEST(Perf, WritesEveryTimeAndWhereItComesFrom) {
  const auto document =
      checked_results(run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "-e", "64", "--json",
                                   "--rounds", "2", "--iterations", "10"}));
  EXPECT_EQ(document["results"].size(), 4U);
  EXPECT_GE(document["results"][0]["times_us"].size(), 2U);  // a busy machine gets more rounds
  EXPECT_EQ(document["origin"]["command"],
            "capstan perf -n 2 -e 64 --json --rounds 2 --iterations 10");
}

TEST(Perf, AComparisonWritesEveryTimeAndWhereItComesFrom) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "perf", "all_reduce", "-n", "2", "--against", "openmpi",
                   "--sizes", "8", "--rounds", "3", "--seconds", "0.01", "--json"});
  if (result.output.find("was not built") != std::string::npos)
    GTEST_SKIP() << "no libopenmpi-dev, or built with sanitizers";
  const auto document = checked_results(result);
  EXPECT_GE(document["cells"][0]["capstan"]["times_us"].size(), 3U);
}

TEST(Perf, NamesWhoDecided) {
  const auto by = [](const char* rules) {
    const auto result = run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "-b", "64", "-e", "64",
                                     "--json", "--rounds", "2", "--seconds", "0.01"},
                                    {{"CAPSTAN_ALGORITHM", rules}, {"CAPSTAN_AUTOTUNE", "0"}});
    return nlohmann::json::parse(result.output)["results"][0]["decided_by"];
  };
  EXPECT_EQ(by("all_reduce:flat"), "rule");
  EXPECT_NE(by(""), "rule");
}

TEST(Perf, SaysHowLongItTookToStart) {
  const auto result = run_command(
      {CAPSTAN_PROGRAM, "perf", "-n", "2", "-e", "8", "--rounds", "2", "--seconds", "0.01"});
  EXPECT_EQ(result.status, 0);
  const auto line = result.output.find("# start-up: ready ");
  ASSERT_NE(line, std::string::npos) << result.output;
  double ready = 0, first = 0;
  EXPECT_EQ(std::sscanf(result.output.c_str() + line,
                        "# start-up: ready %lf ms after the start of the process, first collective "
                        "ended after %lf ms",
                        &ready, &first),
            2)
      << result.output;
  EXPECT_GT(ready, 0);
  EXPECT_GE(first, ready);
}

std::string text_of_file(const std::filesystem::path& file) {
  std::ifstream stream{file};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

TEST(Perf, WritesEveryStepOfEveryRank) {
  const test::TemporaryFolder folder;
  const auto traced = [&](const std::string& name) {
    const std::string file = folder / name;
    const auto result = run_command({CAPSTAN_PROGRAM, "perf", "all_reduce", "-n", "3",
                                     "--algorithm", "direct/staged", "-b", "4k", "-e", "8k",
                                     "--seconds", "0.01", "--rounds", "1", "--trace", file});
    EXPECT_EQ(result.status, 0) << result.output;
    return text_of_file(file);
  };
  const auto trace = nlohmann::json::parse(traced("steps.json"));
  std::map<int, int> calls, steps;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++(event["cat"] == "step" ? steps : calls)[event["pid"].get<int>()];
    EXPECT_GE(event["ts"].get<double>(), 0);
  }
  EXPECT_EQ(calls, (std::map<int, int>{{0, 6}, {1, 6}, {2, 6}})) << "three of each size";
  EXPECT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0] % 6, 0) << "the same in each call";
  const std::string picture = traced("steps.svg");
  EXPECT_THAT(picture, HasSubstr("all_reduce of 8192 bytes on 3 ranks, direct"));
  for (const char* rank : {">rank 0<", ">rank 1<", ">rank 2<"})
    EXPECT_THAT(picture, HasSubstr(rank));
  EXPECT_EQ(occurrences(picture, "class=\"step\""), (steps[0] + steps[1] + steps[2]) / 6);
  const auto refused =
      run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "--trace", "no/folder/x.json"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.output, HasSubstr("cannot write 'no/folder/x.json'"));
}

}  // namespace
}  // namespace capstan
