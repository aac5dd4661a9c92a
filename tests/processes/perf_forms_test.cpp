// SPDX-License-Identifier: Apache-2.0

// `capstan perf`: the ways to make calls, and what is measured besides their median.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "capstan/collective.hpp"
#include "tests/processes/perf_commands.hpp"
#include "tests/processes/processes.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

/// The document of a short measurement, which follows the schema and has no wrong values.
json measured(std::vector<std::string> options) {
  options.insert(options.begin(), {CAPSTAN_PROGRAM, "perf"});
  options.insert(options.end(), {"--rounds", "2", "--patience", "0", "--json"});
  if (std::ranges::find(options, "--seconds") == options.end())
    options.insert(options.end(), {"--seconds", "0.001"});
  const json document =
      checked_results(run_command(options, {{"CAPSTAN_AUTOTUNE", "0"}, {"CAPSTAN_LOG", "error"}}));
  for (const json& each : document["results"]) EXPECT_EQ(each["wrong"], 0) << each;
  return document;
}

TEST(PerfForms, StartsManyCallsAtOnceOrFusesThem) {
  const json started = measured({"all_reduce", "-n", "2", "--start", "--sizes", "64"});
  EXPECT_EQ(started["conditions"]["form"], "started");
  EXPECT_EQ(started["conditions"]["buffers_per_call"], 1);
  const json many = measured({"all_gather", "-n", "2", "--many", "100", "--sizes", "4K"});
  EXPECT_EQ(many["conditions"]["form"], "started");
  EXPECT_EQ(many["conditions"]["buffers_per_call"], 100);
  const json fused = measured({"all_reduce", "-n", "3", "-m", "100", "--fused", "--sizes", "4K"});
  EXPECT_EQ(fused["conditions"]["form"], "fused");
  EXPECT_EQ(fused["results"][0]["bytes"], 4096);
  EXPECT_EQ(fused["results"][0]["in_place"], true);
  EXPECT_THAT(refused_by_perf({"--fused"}), HasSubstr("--many 100"));
  EXPECT_THAT(refused_by_perf({"broadcast", "--fused", "-m", "4"}), HasSubstr("all_reduce alone"));
}

TEST(PerfForms, TellsPercentilesOverRanksAndCalls) {
  const json document = measured({"-n", "3", "--iters", "50", "-F", "--sizes", "64"});
  const json& calls = document["results"][0]["single_calls"];
  EXPECT_EQ(calls["calls_of_a_rank"], 100);
  EXPECT_EQ(calls["ranks_mean_us"].size(), 3U);
  const auto at = [&](const char* name) { return calls[name].get<double>(); };
  EXPECT_GT(at("min_us"), 0);
  EXPECT_LE(at("min_us"), at("p50_us"));
  EXPECT_LE(at("p50_us"), at("p90_us"));
  EXPECT_LE(at("p90_us"), at("p99_us"));
  EXPECT_LE(at("p99_us"), at("max_us"));
  EXPECT_LE(at("min_us"), at("mean_us"));
  EXPECT_LE(at("mean_us"), at("max_us"));
  const json messages = measured({"latency", "-n", "3", "-F", "-W", "8", "--sizes", "8"});
  EXPECT_EQ(messages["window"], 8);
  EXPECT_EQ(messages["results"][0]["single_calls"]["ranks_mean_us"].size(), 2U)
      << "of the ranks that have a peer";
}

/// The share that is hidden depends on the machine; it lies between nothing and all on any.
TEST(PerfForms, TellsHowMuchOfACallAComputationHides) {
  for (const char* how : {"computing", "helped", "sleeping"}) {
    const json document = measured({"-n", "2", "--overlap", how, "--sizes", "64K"});
    const json& overlap = document["results"][0]["overlap"];
    EXPECT_GE(overlap["share"].get<double>(), 0) << how;
    EXPECT_LE(overlap["share"].get<double>(), 1) << how;
    EXPECT_GT(overlap["start_us"].get<double>(), 0) << how;
    EXPECT_GE(overlap["both_us"].get<double>(), overlap["start_us"].get<double>()) << how;
  }
  EXPECT_THAT(refused_by_perf({"--overlap", "hoping"}), HasSubstr("computing"));
}

TEST(PerfForms, MeasuresGroupsAtOnce) {
  const json document = measured({"all_gather", "-n", "4", "--groups", "2", "--sizes", "1K"});
  EXPECT_EQ(document["results"][0]["ranks"], 2);
  EXPECT_EQ(document["conditions"]["groups"], 2);
  EXPECT_EQ(document["processes"].size(), 4U);
  EXPECT_THAT(refused_by_perf({"--groups", "3"}), HasSubstr("2 ranks cannot be divided by it"));
}

/// All of these with buffers at odd addresses and beyond the caches, in place and not.
TEST(PerfForms, TakesBuffersThatNoCacheHas) {
  for (const char* buffers : {"plain", "allocated"}) {
    const json document =
        measured({"all_reduce,broadcast,all_to_all_v", "-n", "2", "--off-cache", "-u", "3",
                  "--buffers", buffers, "--both-places", "--sizes", "8,100000"});
    EXPECT_EQ(document["conditions"]["off_cache"], true);
    EXPECT_EQ(document["conditions"]["offset_elements"], 3);
    EXPECT_EQ(document["results"].size(), 10U) << "an all_to_all_v is never in place";
  }
}

TEST(PerfForms, RanksMayBeThreads) {
  const json document = measured({"all", "-t", "3", "--sizes", "4K"});
  EXPECT_EQ(document["launcher"], "threads of one process");
  ASSERT_EQ(document["processes"].size(), 3U);
  EXPECT_EQ(document["processes"][0]["pid"], document["processes"][2]["pid"]);
  EXPECT_EQ(document["results"].size(), all_collectives().size());
  EXPECT_EQ(measured({"rate", "--threads", "2", "--sizes", "8"})["pairs"], 1);
  EXPECT_THAT(run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "-t", "2"}).output,
              HasSubstr("--ranks: not with --threads"));
}

TEST(PerfForms, MeasuresSeveralCollectivesRootsAndNumbersOfRanks) {
  const json roots = measured({"broadcast,all_reduce", "-n", "3", "-r", "all", "--sizes", "64"});
  std::vector<std::string> lines;
  for (const json& each : roots["results"])
    lines.push_back(
        fmt::format("{} {}", each["collective"].get<std::string>(), each["root"].get<int>()));
  EXPECT_THAT(lines,
              ::testing::ElementsAre("broadcast 0", "broadcast 1", "broadcast 2", "all_reduce 0"));
  const auto several = run_command({CAPSTAN_PROGRAM, "perf", "broadcast,reduce", "-n", "2,3",
                                    "--sizes", "64", "--seconds", "0.001", "--patience", "0"},
                                   {{"COLUMNS", "80"}});
  EXPECT_EQ(several.status, 0) << several.output;
  for (const char* text : {"# collectives over 2 ranks", "# collectives over 3 ranks"})
    EXPECT_THAT(several.output, HasSubstr(text));
  EXPECT_THAT(refused_by_perf({"broadcast", "-n", "2,3", "--chart", "page.html"}),
              HasSubstr("several documents"));
}

TEST(PerfForms, SeveralNumbersOfRanksAreOneDocument) {
  const test::TemporaryFolder folder;
  for (const char* collective : {"broadcast", "latency"}) {
    const std::vector<std::string> command{
        CAPSTAN_PROGRAM, "perf",  collective, "-n", "2,3",        "--sizes", "64",
        "--seconds",     "0.001", "--rounds", "2",  "--patience", "0"};
    auto printed = command, written = command;
    printed.emplace_back("--json");
    written.push_back("--json=" + (folder / "all.json"));
    const json document = checked_results(run_command(printed, {{"CAPSTAN_LOG", "error"}}));
    ASSERT_EQ(document["jobs"].size(), 2U);
    EXPECT_EQ(document["jobs"][0]["processes"].size(), 2U);
    EXPECT_EQ(document["jobs"][1]["processes"].size(), 3U);
    const auto table = run_command(written, {{"CAPSTAN_LOG", "error"}});
    EXPECT_EQ(table.status, 0) << table.output;
    std::ifstream file{folder / "all.json"};
    EXPECT_EQ(json::parse(file)["jobs"].size(), 2U);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator{folder.path()}, {}), 1);
  }
}

/// As nccl-tests' -N, -S and -M.
TEST(PerfForms, RepeatsTheTableTellsTimesAndMemory) {
  const json document =
      measured({"all_reduce", "-n", "2", "--sizes", "8,64", "-N", "3", "-S", "1", "-M", "1"});
  ASSERT_EQ(document["results"].size(), 6U);
  EXPECT_EQ(document["results"][0]["cycle"], 1);
  EXPECT_EQ(document["results"][5]["cycle"], 3);
  EXPECT_EQ(document["results"][5]["bytes"], 64);
  EXPECT_THAT(document["results"][0]["ended"].get<std::string>(),
              ContainsRegex("^20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$"));
  EXPECT_GT(document["memory"]["most_resident_bytes"], 1 << 20);
  const json usual = measured({"all_reduce", "-n", "2", "--sizes", "8", "-S", "0", "-M", "0"});
  EXPECT_FALSE(usual["results"][0].contains("ended") || usual["results"][0].contains("cycle"));
  EXPECT_FALSE(usual.contains("memory"));
}

/// Options of measurements of Capstan alone are refused with one text.
TEST(PerfForms, ComparisonsRefuseWhatPeersDoNotHave) {
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--overlap", "computing"},
        {"--groups", "2"},
        {"--off-cache"},
        {"--fused", "--many", "4"},
        {"--iterations", "4"},
        {"--cycles", "2"},
        {"--timestamps", "1"},
        {"--memory", "1"}}) {
    std::vector<std::string> all{"--against", "gloo"};
    all.insert(all.end(), options.begin(), options.end());
    EXPECT_THAT(refused_by_perf(all),
                HasSubstr(options.front() + ": not with --against, which compares whole calls"));
  }
  const auto threads =
      run_command({CAPSTAN_PROGRAM, "perf", "--threads", "2", "--against", "gloo"});
  EXPECT_EQ(threads.status, 2);
  EXPECT_THAT(threads.output, HasSubstr("--threads: not with --against"));
  EXPECT_THAT(refused_by_perf({"messages", "--against", "gloo", "--many", "4"}),
              HasSubstr("--many: not for messages"));
  EXPECT_THAT(refused_by_perf({"all_reduce", "--against", "gloo", "--window", "4"}),
              HasSubstr("--window: only for messages"));
  EXPECT_THAT(refused_by_perf({"reduce_scatter", "--against", "gloo", "--in-place"}),
              HasSubstr("leave the results of these calls elsewhere"));
  EXPECT_THAT(refused_by_perf({"messages", "--against", "openmpi", "-n", "1"}),
              HasSubstr("messages need two ranks"));
}

/// Peers make the same calls: with counts of their own, many at once, each timed.
TEST(PerfForms, ComparesWithPeersThatDoTheSame) {
  const auto compared = [](std::vector<std::string> options) {
    options.insert(options.begin(), {CAPSTAN_PROGRAM, "perf"});
    options.insert(options.end(),
                   {"-n", "2", "--rounds", "1", "--seconds", "0.001", "--patience", "0", "--json"});
    return run_command(options, {{"CAPSTAN_LOG", "error"}});
  };
  std::string all;
  for (const Collective each : all_collectives())
    all += fmt::format("{}{}", all.empty() ? "" : ",", name_of(each));
  for (const std::string peer : {"openmpi", "mpich", "gloo"}) {
    const bool mpi = peer != "gloo";
    std::set<std::string> names;
    const auto whole = compared({all, "--against", peer, "--sizes", "4K"});
    if (whole.output.find("was not built") != whole.output.npos)
      GTEST_SKIP() << "no " << peer << ", or built with sanitizers";
    const json cells = checked_results(whole)["cells"];
    EXPECT_EQ(cells.size(), all_collectives().size());
    std::size_t with_peer = 0;
    for (const json& each : cells) {
      EXPECT_EQ(each["wrong"], 0) << each;
      with_peer += each["peers"].size();
      for (const json& other : each["peers"]) EXPECT_EQ(other["wrong"], 0) << each;
    }
    EXPECT_EQ(with_peer, mpi ? cells.size() : 11U) << peer;
    if (!mpi) continue;
    const json more = checked_results(compared({"all,messages,scan,exscan", "--both-places",
                                                "--against", peer, "--sizes", "40K", "-W", "3"}));
    for (const json& each : more["cells"]) {
      names.insert(each["collective"]);
      EXPECT_EQ(each["wrong"], 0) << each;
      EXPECT_EQ(each["peers"][peer]["wrong"], 0) << each;
      EXPECT_GT(each["peers"][peer]["median_us"], 0) << each;
    }
    for (const char* row : {"all_reduce", "all_reduce in place", "reduce in place",
                            "all_gather in place", "all_to_all in place", "scan in place",
                            "exscan in place", "latency", "bandwidth", "bidirectional"})
      EXPECT_THAT(names, Contains(row)) << peer;
    const json many = checked_results(compared(
        {"all_reduce,all_gather_v", "--against", peer, "--sizes", "4K", "-m", "10", "-F"}));
    EXPECT_EQ(many["conditions"]["buffers_per_call"], 10);
    for (const json& each : many["cells"]) {
      EXPECT_EQ(each["peers"][peer]["wrong"], 0) << each;
      EXPECT_GT(each["peers"][peer]["single_calls"]["p99_us"].get<double>(), 0) << each;
      EXPECT_GT(each["capstan"]["single_calls"]["p99_us"].get<double>(), 0) << each;
    }
  }
}

TEST(PerfForms, EndsInTime) {
  const auto result = run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "--sizes", "8", "--iters",
                                   "1000000000", "-T", "0.3", "--patience", "0"});
  EXPECT_EQ(result.status, 124) << result.output;
}

/// A terminal has room for all columns, and JSON and CSV have each of them.
TEST(PerfForms, TablesFitTheTerminal) {
  for (const std::vector<std::string>& options : {std::vector<std::string>{"-F", "--both-places"},
                                                  {"-F", "--overlap", "computing"},
                                                  {"-r", "all", "-F", "-d", "f32,f64"},
                                                  {"--many", "8", "--off-cache"}}) {
    std::vector<std::string> words{
        CAPSTAN_PROGRAM, "perf",  "broadcast,reduce", "-n", "2", "--sizes", "64",
        "--seconds",     "0.001", "--patience",       "0"};
    words.insert(words.end(), options.begin(), options.end());
    std::istringstream text{run_command(words, {{"COLUMNS", "80"}}).output};
    int lines = 0;
    for (std::string line; std::getline(text, line); ++lines) EXPECT_LE(line.size(), 80U) << line;
    EXPECT_GT(lines, 5);
  }
  const auto csv = run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "--sizes", "64", "--seconds",
                                "0.001", "-F", "--overlap", "computing", "--format", "csv"},
                               {{"COLUMNS", "80"}});
  EXPECT_THAT(csv.output, HasSubstr("call min (us),avg (us),p50 (us),p90 (us),p99 (us),max (us),"
                                    "overlap (%),start (us),computed (us),both (us),doubts"));
}

}  // namespace
}  // namespace capstan
