// SPDX-License-Identifier: Apache-2.0

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

#include "tests/processes/processes.hpp"
#include "tests/temporary_folder.hpp"

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

/// The other tests of this folder rely on this one.
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
  EXPECT_THAT(result.output, HasSubstr("the others continue"));
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
  const auto result =
      run_command({CAPSTAN_PROGRAM, "run", "-n", "3", "--", "/proc/no/such/program"});
  EXPECT_EQ(result.status, 127) << "as shells do";
  EXPECT_THAT(result.output, HasSubstr("cannot run '/proc/no/such/program'"));
}

TEST(Run, AFileThatIsNoProgramHasTheStatusThatShellsGive) {
  EXPECT_EQ(run_command({CAPSTAN_PROGRAM, "run", "-n", "2", "--", "/dev/null"}).status, 126);
}

TEST(Run, ALimitThatLetsNoRankStartIsNamed) {
  const std::string program = CAPSTAN_PROGRAM;
  for (const auto& [limit, named] : {std::pair{"-n 12", "RLIMIT_NOFILE"}, {"-n 4", "ulimit -n"}}) {
    const auto result = run_command(
        {"sh", "-c",
         "for inherited in 3 4 5 6 7 8 9; do eval \"exec $inherited>&-\"; done; ulimit " +
             std::string{limit} + "; exec " + program + " run -n 4 true"});
    EXPECT_EQ(result.status, 1) << limit;
    EXPECT_THAT(result.output, AllOf(HasSubstr("cannot make a pipe"), HasSubstr(named))) << limit;
  }
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
  const test::TemporaryFolder folder;
  const std::string file = folder / "pids";
  run_command({"sh", "-c",
               fmt::format("{} run -n 1 -- sh -c 'sleep 1000 & echo $$ $! > {}; kill -9 $PPID; "
                           "exec sleep 1000'; true",
                           CAPSTAN_PROGRAM, file)});
  std::string rank, child;
  std::ifstream{file} >> rank >> child;
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
  EXPECT_THAT(refused({}), HasSubstr("--ranks, --hosts or --hostfile is required"));
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

/// The only line of a program that does not understand its command line.
std::string not_understood(std::vector<std::string> words) {
  words.insert(words.begin(), CAPSTAN_PROGRAM);
  const auto result = run_command(words);
  EXPECT_EQ(result.status, 2) << result.output;
  return result.output;
}

TEST(Program, UnknownCommandsAreNamedWithTheNearestOne) {
  EXPECT_EQ(not_understood({"verfy"}),
            "capstan: no command 'verfy': did you mean 'verify'? see capstan --help\n");
  EXPECT_EQ(not_understood({"pref", "-n", "2"}),
            "capstan: no command 'pref': did you mean 'perf'? see capstan --help\n");
  EXPECT_EQ(not_understood({"halp"}),
            "capstan: no command 'halp': did you mean 'help'? see capstan --help\n");
  EXPECT_EQ(not_understood({"daemn"}), "capstan: no command 'daemn'; see capstan --help\n");
  EXPECT_EQ(not_understood({}), "capstan: no command was given; see capstan --help\n");
}

TEST(Program, UnknownOptionsAreNamedWithTheNearestOne) {
  EXPECT_EQ(not_understood({"verify", "all_reduce", "--rank", "3"}),
            "capstan: unknown option --rank: did you mean --ranks? see capstan verify --help\n");
  EXPECT_EQ(not_understood({"simulate", "--rank=3"}),
            "capstan: unknown option --rank: did you mean --ranks? see capstan simulate --help\n");
  EXPECT_EQ(not_understood({"perf", "all_reduce", "--algo", "ring"}),
            "capstan: unknown option --algo: did you mean --algorithm? see capstan perf --help\n");
  EXPECT_EQ(not_understood({"perf", "--n", "2"}),
            "capstan: unknown option --n: did you mean -n? see capstan perf --help\n");
  EXPECT_EQ(not_understood({"--foo", "topo"}),
            "capstan: unknown option --foo; see capstan --help\n");
}

TEST(Program, UnknownValuesAreNamedWithTheNearestOne) {
  EXPECT_EQ(not_understood({"perf", "all_reduces"}),
            "capstan: collective: no 'all_reduces': did you mean 'all_reduce'? "
            "see capstan perf --help\n");
  EXPECT_THAT(not_understood({"perf", "shuffle"}),
              testing::AllOf(testing::HasSubstr("collective: shuffle not in {barrier,broadcast,"),
                             testing::HasSubstr(",all}; see capstan perf --help")));
}

TEST(Program, WordsBehindAnUnknownOptionAreNotBlamed) {
  EXPECT_EQ(not_understood({"run", "-n", "2", "--foo", "--", "true"}),
            "capstan: unknown option --foo (those of the program stand after --); "
            "see capstan run --help\n");
  EXPECT_EQ(not_understood({"run", "-n", "2", "--foo", "3", "--", "ls", "-l"}),
            "capstan: unknown option --foo (those of the program stand after --); "
            "see capstan run --help\n");
  EXPECT_EQ(not_understood({"run", "-n", "2", "train", "--time", "3"}),
            "capstan: unknown option --time (those of the program stand after --): "
            "did you mean --timeout? see capstan run --help\n");
  EXPECT_EQ(not_understood({"topo", "x", "y"}),
            "capstan: 'x' is one word too many; see capstan topo --help\n");
}

TEST(Program, AlgorithmsAndRanksHaveOneShortNameInAllCommands) {
  for (const char* command : {"verify", "export", "simulate"}) {
    const auto result =
        run_command({CAPSTAN_PROGRAM, command, "all_reduce", "-a", "ring", "-n", "2"});
    EXPECT_EQ(result.status, 0) << result.output;
  }
  const auto perf = run_command(
      {CAPSTAN_PROGRAM, "perf", "all_reduce", "-a", "ring", "-n", "2", "-b", "8", "-e", "8"});
  EXPECT_EQ(perf.status, 0) << perf.output;
  EXPECT_THAT(perf.output, HasSubstr(" ring "));
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

/// The autotuner tries about ten candidates six times each, and no machine does that in the time.
TEST(Program, WhatIsNoTimeIsRefused) {
  const auto started = [](const char* option, const char* time) {
    return run_command({CAPSTAN_PROGRAM, "run", "-n", "1", option, time, "--", "echo", "started"});
  };
  for (const char* option : {"--timeout", "--grace"}) {
    for (const char* time : {"60x", "nan", "-1", ""}) {
      const auto result = started(option, time);
      EXPECT_EQ(result.status, 2) << option << time << result.output;
      EXPECT_THAT(result.output, ::testing::Not(HasSubstr("started")));
    }
    for (const char* for_ever : {"inf", "1e99"})
      EXPECT_EQ(started(option, for_ever).output, "[0] started\n");
  }
  for (const char* time : {"60x", "nan", "-1", "", "inf", "1e99", "0"})
    for (const char* command : {"perf", "tune"})
      EXPECT_EQ(run_command({CAPSTAN_PROGRAM, command, "-n", "2", "--seconds", time}).status, 2);
  const auto setting =
      run_command({CAPSTAN_PROGRAM, "run", "-n", "1", "--", "true"}, {{"CAPSTAN_TIMEOUT", "60x"}});
  EXPECT_EQ(setting.status, 2) << setting.output;
  EXPECT_THAT(setting.output, HasSubstr("CAPSTAN_TIMEOUT='60x'"));
}

/// As ranks do that are bound differently.
/// Two elements cannot be cut into a block for each.

}  // namespace
}  // namespace capstan
