// `capstan run` as its users see it.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "capstan/collective.hpp"
#include "tests/processes/processes.hpp"

namespace capstan {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

CommandResult run(const std::vector<std::string>& options, const std::string& script) {
  std::vector<std::string> command{CAPSTAN_PROGRAM, "run"};
  command.insert(command.end(), options.begin(), options.end());
  command.insert(command.end(), {"--", "sh", "-c", script});
  return run_command(command);
}

/// What the other tests of this folder rely on.
TEST(Leftovers, AreSeenUntilTheyEnd) {
  const auto result = run_command({"sh", "-c", "sleep 600 >&- 2>&- & echo $!"});
  const auto left = leftovers(std::chrono::seconds{1});
  ASSERT_EQ(left.size(), 1u);
  EXPECT_THAT(left.front(), HasSubstr("sleep 600"));
  ::kill(static_cast<pid_t>(std::stol(result.output)), SIGKILL);
  EXPECT_THAT(leftovers(), ::testing::IsEmpty());
}

TEST(Run, TagsEveryLineAndLosesNone) {
  const auto result = run({"-n", "3"},
                          "i=0; while [ $i -lt 2000 ]; do echo $CAPSTAN_RANK:$i; "
                          "i=$((i+1)); done; printf last");
  EXPECT_EQ(result.status, 0);
  std::multiset<std::string> lines;
  std::istringstream text{result.output};
  for (std::string line; std::getline(text, line);) lines.insert(line);
  EXPECT_EQ(lines.size(), 3 * 2001u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(lines.count(fmt::format("[{}] {}:1999", rank, rank)), 1u);
    EXPECT_EQ(lines.count(fmt::format("[{}] last", rank)), 1u);
  }
}

TEST(Run, AFailedRankEndsTheOthersAndGivesItsStatus) {
  const auto result = run({"-n", "3"}, "[ $CAPSTAN_RANK = 1 ] && exit 3; exec sleep 1000");
  EXPECT_EQ(result.status, 3);
  EXPECT_THAT(result.output, HasSubstr("rank 1"));
  EXPECT_THAT(result.output, HasSubstr("exited with status 3"));
}

/// Half a second passes between the failure and the signal, so that others can report it.
TEST(Run, AFailureEndsTheOthersAfterAWhile) {
  const auto result = run({"-n", "2"}, R"(
      if [ $CAPSTAN_RANK = 1 ]; then echo failed at $(date +%s%N); exit 3; fi
      trap 'echo ended at $(date +%s%N); exit' TERM
      sleep 1000 & wait)");
  EXPECT_EQ(result.status, 3);
  const auto time_of = [&](const std::string& event) {
    const auto at = result.output.find(event);
    return at == std::string::npos ? 0 : std::stoll(result.output.substr(at + event.size()));
  };
  const auto failed = time_of("failed at "), ended = time_of("ended at ");
  ASSERT_GT(failed, 0) << result.output;
  ASSERT_GT(ended, 0) << result.output;
  EXPECT_GE(ended - failed, 500'000'000) << result.output;
}

TEST(Run, WithKeepGoingTheOthersReportAFailureAndGoOn) {
  const auto result = run_command(
      {CAPSTAN_PROGRAM, "run", "-n", "3", "--keep-going", "--", WORKER_PROGRAM, "kill", "10"});
  EXPECT_EQ(result.status, 128 + 9) << result.output;
  EXPECT_EQ(occurrences(result.output, "PeerLost 1:"), 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("the others go on"));
}

TEST(Run, WithKeepGoingALostHostEndsNoOthers) {
  const auto result =
      run_command({"env", "CAPSTAN_INTERFACE=lo", CAPSTAN_PROGRAM, "run", "--keep-going", "--hosts",
                   "a:1,b:1", "--agent", "env CAPSTAN_HOST={host}", "--", "sh", "-c",
                   "[ $CAPSTAN_RANK = 1 ] && kill -9 $PPID; sleep 0.5; echo survived"});
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("host b: its agent"));
  EXPECT_THAT(result.output, HasSubstr("[0] survived"));
}

TEST(Run, AKilledRankIsNamed) {
  const auto result = run({"-n", "2"}, "[ $CAPSTAN_RANK = 0 ] && kill -9 $$; exec sleep 1000");
  EXPECT_EQ(result.status, 128 + 9);
  EXPECT_THAT(result.output, HasSubstr("killed by signal 9"));
}

TEST(Run, RanksThatIgnoreSigtermAreKilled) {
  const auto result = run({"-n", "2", "--grace", "0.2"},
                          "trap '' TERM; [ $CAPSTAN_RANK = 0 ] && exit 4; sleep 1000");
  EXPECT_EQ(result.status, 4);
}

TEST(Run, TimeoutEndsTheJob) {
  const auto result = run({"-n", "2", "--timeout", "0.3"}, "exec sleep 1000");
  EXPECT_EQ(result.status, 124);
  EXPECT_THAT(result.output, HasSubstr("took longer than 0.3 s"));
}

TEST(Run, AMissingProgramIsOneError) {
  const auto result = run_command({CAPSTAN_PROGRAM, "run", "-n", "3", "--", "/no/such/program"});
  EXPECT_EQ(result.status, 127) << "as shells do";
  EXPECT_THAT(result.output, HasSubstr("cannot run '/no/such/program'"));
}

TEST(Run, AFileThatIsNoProgramHasTheStatusThatShellsGive) {
  EXPECT_EQ(run_command({CAPSTAN_PROGRAM, "run", "-n", "2", "--", "/dev/null"}).status, 126);
}

TEST(Run, RankZeroReadsStandardInput) {
  const auto result =
      run_command({"sh", "-c", fmt::format("echo hello | {} run -n 2 -- cat", CAPSTAN_PROGRAM)});
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.output, "[0] hello\n");
}

/// A network of its own has no interface that is up, not even the loopback's.
TEST(Run, RanksOfOneHostNeedNoNetwork) {
  if (run_command({"unshare", "--net", "true"}).status != 0)
    GTEST_SKIP() << "needs root, to make a network namespace";
  const auto result = run_command(
      {"unshare", "--net", CAPSTAN_PROGRAM, "run", "-n", "2", "--", WORKER_PROGRAM, "carries"});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "right sums"), 2) << result.output;
}

TEST(Run, ATakenPortIsOneError) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "run", "-n", "1", "--store-port", "0", "--", "sh", "-c",
                   fmt::format("exec {} run -n 1 --store-port ${{CAPSTAN_STORE##*:}} -- true",
                               CAPSTAN_PROGRAM)});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("port"));
}

TEST(Run, KillingTheLauncherEndsTheRanksAndWhatTheyHaveStarted) {
  // The inner launcher kills itself through its rank; neither the rank nor its child survives it.
  std::string file = (std::filesystem::temp_directory_path() / "capstan-XXXXXX").string();
  const int made = ::mkstemp(file.data());
  ASSERT_GE(made, 0);
  ::close(made);
  run_command({"sh", "-c",
               fmt::format("{} run -n 1 -- sh -c 'sleep 1000 & echo $$ $! > {}; kill -9 $PPID; "
                           "exec sleep 1000'; true",
                           CAPSTAN_PROGRAM, file)});
  std::string rank, child;
  std::ifstream{file} >> rank >> child;
  std::filesystem::remove(file);
  ASSERT_FALSE(child.empty());
  const auto lives = [](const std::string& pid) { return std::filesystem::exists("/proc/" + pid); };
  for (int i = 0; i < 600 && (lives(rank) || lives(child)); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
  EXPECT_FALSE(lives(rank));
  EXPECT_FALSE(lives(child));
}

TEST(Run, StoppingTheLauncherStopsTheRanksAndContinuingItContinuesThem) {
  // A process outside the job continues the launcher once it and its rank are stopped.
  const auto result = run({"-n", "1"}, R"(
      trap 'echo continued; exit 0' CONT
      launcher=$PPID rank=$$
      export launcher rank
      setsid sh -c '
        for i in $(seq 600); do
          sleep 0.05
          [ $(cut -d" " -f3 /proc/$launcher/stat) = T ] || continue
          [ $(cut -d" " -f3 /proc/$rank/stat) = T ] && kill -CONT $launcher && exit
        done' &
      until [ $(cut -d' ' -f6 /proc/$!/stat) = $! ]; do sleep 0.01; done  # it has left the group
      sleep 60 &
      kill -TSTP $launcher
      wait $!
      exit 3)");
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("continued"));
}

TEST(Run, OptionsThatMakeNoSenseAreRefusedBeforeAnythingStarts) {
  const auto refused = [](std::vector<std::string> options) {
    options.insert(options.begin(), {CAPSTAN_PROGRAM, "run"});
    options.insert(options.end(), {"--", "echo", "started"});
    const auto result = run_command(options);
    EXPECT_EQ(result.status, 2) << result.output;
    EXPECT_THAT(result.output, ::testing::Not(HasSubstr("started")));
    return result.output;
  };
  EXPECT_THAT(refused({}), HasSubstr("--ranks or --hosts is required"));
  EXPECT_THAT(refused({"--hosts", "a:2", "-n", "3"}), HasSubstr("places for 2 ranks, not for 3"));
  EXPECT_THAT(refused({"--hosts", "a:2,b:0"}), HasSubstr("\"b:0\""));
  EXPECT_THAT(refused({"--hosts", "a", "--hostfile", "b"}), HasSubstr("excludes"));
  EXPECT_THAT(refused({"--hosts", "a", "--agent", "ssh a"}), HasSubstr("no {host}"));
  EXPECT_THAT(refused({"--hosts", "a", "--capstan", "/a path/capstan"}),
              HasSubstr("without blanks"));
  EXPECT_THAT(refused({"-n", "1", "--directory", "/"}), HasSubstr("--directory: it is for other"));
  EXPECT_THAT(refused({"-n", "1", "--env", "=1"}), HasSubstr("NAME=VALUE or NAME"));
  EXPECT_THAT(refused({"-n", "1", "--env", "NOT_SET_ANYWHERE"}), HasSubstr("not set here"));
}

TEST(Run, HelpTeaches) {
  for (const char* command : {"run", "perf", "verify", "topo", "doctor"}) {
    const auto help = run_command({CAPSTAN_PROGRAM, command, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_THAT(help.output, HasSubstr("Example"));
  }
  EXPECT_EQ(run_command({CAPSTAN_PROGRAM, "nonsense"}).status, 2);
}

TEST(Doctor, EveryAnswerThatIsNotOkHasAReasonAndARemedy) {
  const auto result = run_command({CAPSTAN_PROGRAM, "doctor"});
  EXPECT_EQ(result.status, 0) << result.output;
  for (const char* name : {"kernels", "memfd", "pinned memory", "registrations", "dma-buf",
                           "peer memory", "libfabric FI_HMEM", "launchers"})
    EXPECT_THAT(result.output, HasSubstr(std::string{"\n"} + name));
  EXPECT_THAT(result.output, ContainsRegex("\ntransports +OK +threads, shm, tcp"));
  std::istringstream lines{result.output};
  for (std::string line, next; std::getline(lines, line);) {
    if (line.size() < 29 || line.compare(21, 2, "OK") == 0 || line[0] == ' ') continue;
    EXPECT_FALSE(line.substr(29).empty()) << line;
    ASSERT_TRUE(std::getline(lines, next)) << line;
    EXPECT_THAT(next, HasSubstr("     ")) << "no remedy follows: " << line;
  }
}

TEST(Perf, BadOptionsAreRefusedOnce) {
  const auto algorithm =
      run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "--algorithm", "quantum"});
  EXPECT_EQ(algorithm.status, 2);
  EXPECT_THAT(algorithm.output, HasSubstr("choose one of flat,"));
  const auto size = run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "-b", "lots"});
  EXPECT_EQ(size.status, 2);
  EXPECT_THAT(size.output, HasSubstr("--min-bytes"));
  EXPECT_EQ(occurrences(size.output, "capstan: "), 1) << size.output;
}

std::string refused_by_perf(std::vector<std::string> options) {
  options.insert(options.begin(), {CAPSTAN_PROGRAM, "perf", "-n", "2"});
  const auto result = run_command(options);
  EXPECT_EQ(result.status, 2) << result.output;
  EXPECT_THAT(result.output, ::testing::Not(HasSubstr("median")));
  return result.output;
}

TEST(Perf, NamesTheChoices) {
  EXPECT_THAT(refused_by_perf({"all_shrink"}), HasSubstr("all_reduce"));
  EXPECT_THAT(refused_by_perf({"--types", "f33"}), HasSubstr("'f33': choose from i8, "));
  EXPECT_THAT(refused_by_perf({"--ops", "summ"}), HasSubstr("'summ': choose from sum, "));
  EXPECT_THAT(refused_by_perf({"--algorithm", "ring/telepathy"}), HasSubstr("staged"));
  EXPECT_THAT(refused_by_perf({"--buffers", "borrowed"}), HasSubstr("allocated"));
  const auto rule =
      run_command({CAPSTAN_PROGRAM, "perf", "-n", "1"}, {{"CAPSTAN_ALGORITHM", "ring"}});
  EXPECT_EQ(rule.status, 2) << rule.output;
  EXPECT_THAT(rule.output, HasSubstr("all_to_all_v"));
}

TEST(Perf, RefusesOptionsThatDoNothing) {
  EXPECT_THAT(refused_by_perf({"--sizes", "8"}), HasSubstr("--sizes: only with --against"));
  EXPECT_THAT(refused_by_perf({"--chart", "c"}), HasSubstr("--chart: only with --against"));
  EXPECT_THAT(refused_by_perf({"--root", "1"}), HasSubstr("--root: all_reduce has no root"));
  EXPECT_THAT(refused_by_perf({"broadcast", "--ops", "max"}), HasSubstr("--ops: broadcast has no"));
  EXPECT_THAT(refused_by_perf({"broadcast", "--root", "2"}), HasSubstr("there are 2 ranks"));
  EXPECT_THAT(refused_by_perf({"--agent", "ssh {host}"}), HasSubstr("--agent: it is for other"));
  for (const char* option : {"--factor", "--types", "--ops", "--algorithm", "--root"})
    EXPECT_THAT(refused_by_perf({"--against", "gloo", option, "4"}),
                HasSubstr(fmt::format("{}: not with --against", option)));
  EXPECT_THAT(refused_by_perf({"--against", "gloo", "--sizes", "8", "-e", "8"}),
              HasSubstr("--max-bytes: --sizes says it all"));
}

TEST(Perf, AFileThatCannotBeWrittenIsFoundBeforeAnythingIsMeasured) {
  const auto result = run_command(
      {CAPSTAN_PROGRAM, "perf", "-n", "2", "-e", "8", "--json", "/no/such/folder/results"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("cannot write '/no/such/folder/results'"));
  EXPECT_THAT(result.output, ::testing::Not(HasSubstr("# all_reduce over")));
}

TEST(Perf, ASweepEndsWithTheLargestSize) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "-b", "8", "-e", "1000", "-f", "5",
                   "--rounds", "2", "--seconds", "0.001", "--json", "-"});
  EXPECT_EQ(result.status, 0) << result.output;
  for (const char* size : {"8", "40", "200", "1000"})
    EXPECT_EQ(occurrences(result.output, fmt::format("\"bytes\": {},", size)), 1) << result.output;
}

/// The autotuner tries about ten candidates six times each, and no machine does that in the time.
TEST(Perf, ASizeTakesNotMuchLongerThanAskedForAndSaysWhatThatMeans) {
  const auto result = run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "-b", "16M", "-e", "16M",
                                   "--rounds", "1000", "--seconds", "0.001", "--json", "-"});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("\"settled\": false"));
  EXPECT_THAT(result.output, HasSubstr("\"calls\": 1,"));
  const auto table = run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "-b", "16M", "-e", "16M",
                                  "--no-check", "--seconds", "0.001"});
  EXPECT_EQ(table.status, 0) << table.output;
  EXPECT_THAT(table.output, HasSubstr("  not settled\n"));
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

TEST(Program, WhatIsNoTimeIsRefused) {
  for (const char* time : {"60x", "nan", "inf", "-1", "1e99", ""}) {
    for (const char* option : {"--timeout", "--grace"}) {
      const auto result =
          run_command({CAPSTAN_PROGRAM, "run", "-n", "1", option, time, "--", "echo", "started"});
      EXPECT_EQ(result.status, 2) << option << time << result.output;
      EXPECT_THAT(result.output, ::testing::Not(HasSubstr("started")));
    }
    EXPECT_EQ(run_command({CAPSTAN_PROGRAM, "perf", "-n", "1", "--seconds", time}).status, 2);
  }
  const auto setting =
      run_command({CAPSTAN_PROGRAM, "run", "-n", "1", "--", "true"}, {{"CAPSTAN_TIMEOUT", "60x"}});
  EXPECT_EQ(setting.status, 2) << setting.output;
  EXPECT_THAT(setting.output, HasSubstr("CAPSTAN_TIMEOUT='60x'"));
}

TEST(Perf, MeasuresWhatHasLengthsOfItsOwnForEachRank) {
  for (const Collective collective : all_collectives()) {
    if (!has_counts(collective)) continue;
    for (const char* ranks : {"2", "3"}) {
      const auto result =
          run_command({CAPSTAN_PROGRAM, "perf", std::string{name_of(collective)}, "-n", ranks, "-b",
                       "64", "-e", "64K", "-f", "32", "--rounds", "2", "--seconds", "0.01"});
      EXPECT_EQ(result.status, 0) << name_of(collective) << " on " << ranks << result.output;
      EXPECT_THAT(result.output, HasSubstr("# wrong values: 0"));
      EXPECT_THAT(result.output, ContainsRegex(" 6553[26] "));
    }
  }
}

/// As ranks do that are bound differently.
TEST(Perf, RanksThatSeeOtherCachesCutCallsAlike) {
  const auto result =
      run({"-n", "2", "--bind", "none"},
          "export HWLOC_SYNTHETIC=\"pack:1 l3:1(size=$((32 - 28 * CAPSTAN_RANK))MB) "
          "l2:64(size=512KB) core:1 pu:1\"; exec " CAPSTAN_PROGRAM
          " perf -b 8M -e 8M --algorithm direct/write_output --seconds 0.05");
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
  EXPECT_THAT(result.output, HasSubstr("# cells lost: "));
  for (const char* parts : {"reduce and broadcast", "reduce_scatter and all_gather"})
    EXPECT_THAT(result.output,
                ContainsRegex(fmt::format("# all_reduce takes [0-9.]+ to [0-9.]+ times as long as "
                                          "{} in its place",
                                          parts)));
  EXPECT_THAT(result.output, ::testing::Not(HasSubstr("left out")));
  EXPECT_THAT(result.output, ::testing::Not(HasSubstr("wrong")));
}

/// Two elements cannot be cut into a block for each.
TEST(Perf, ComparesWithPartsOnOddNumbersOfRanks) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "perf", "all_reduce", "-n", "3", "--against", "gloo", "--sizes",
                   "8,4K", "--rounds", "2", "--seconds", "0.01", "--json", "-"});
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

TEST(Perf, WritesJson) {
  const auto result = run_command({CAPSTAN_PROGRAM, "perf", "-n", "2", "-e", "64", "--json", "-",
                                   "--rounds", "2", "--seconds", "0.01"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("\"median_us\""));
  EXPECT_THAT(result.output, HasSubstr("\"first_collective_ms\""));
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

}  // namespace
}  // namespace capstan
