// SPDX-License-Identifier: Apache-2.0

// Behaviour of Capstan where the system refuses calls, as the seccomp profiles of containers and
// older kernels do.

#include "tests/processes/refused_calls.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/processes/processes.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class RefusedCalls : public ::testing::TestWithParam<const char*> {
 protected:
  /// Runs a command to which the calls are refused with this test's error.
  static CommandResult without(const std::string& calls, const std::vector<std::string>& command) {
    std::vector<std::string> words{REFUSE_PROGRAM, GetParam(), calls};
    words.insert(words.end(), command.begin(), command.end());
    return run_command(words);
  }

  void SetUp() override {
    if (without("all", {"true"}).status == 77) GTEST_SKIP() << "no seccomp here";
  }
  void TearDown() override { EXPECT_THAT(leftovers(), ::testing::IsEmpty()); }
};

INSTANTIATE_TEST_SUITE_P(With, RefusedCalls, ::testing::Values("EPERM", "ENOSYS"));

/// Every second call with this error, the others with the other one.
TEST_P(RefusedCalls, LeaveEveryResultRight) {
  const auto calls = optional_calls();
  for (std::size_t i = GetParam() == std::string{"EPERM"} ? 0 : 1; i < calls.size(); i += 2) {
    const CallPattern& call = calls[i];
    const auto result = without(std::string{call.name}, {CAPSTAN_PROGRAM, "run", "-n", "2", "--",
                                                         WORKER_PROGRAM, "carries"});
    EXPECT_EQ(result.status, 0) << call.name << ": " << result.output;
    EXPECT_EQ(occurrences(result.output, "right sums"), 2) << call.name << ": " << result.output;
  }
}

/// Also messages and collectives from allocated buffers, and ranks behind daemons.
TEST_P(RefusedCalls, LeaveEveryResultRightAllTogether) {
  const auto buffers = without("all", {CAPSTAN_PROGRAM, "run", "-n", "3", "--", WORKER_PROGRAM,
                                       "shared", "kinds:all_reduce"});
  EXPECT_EQ(buffers.status, 0) << buffers.output;
  const auto messages =
      without("all", {CAPSTAN_PROGRAM, "run", "-n", "3", "--", WORKER_PROGRAM, "messages", "200"});
  EXPECT_EQ(messages.status, 0) << messages.output;
  const auto hosts =
      without("all", {"env", "CAPSTAN_INTERFACE=lo", CAPSTAN_PROGRAM, "run", "--hosts", "a:1,b:1",
                      "--agent", "env CAPSTAN_HOST={host}", "--", WORKER_PROGRAM, "carries"});
  EXPECT_EQ(hosts.status, 0) << hosts.output;
  EXPECT_EQ(occurrences(hosts.output, "right sums"), 2) << hosts.output;
}

TEST_P(RefusedCalls, LeaveTheLauncherItsDuties) {
  const auto run = [](const std::string& script) {
    return without("all", {CAPSTAN_PROGRAM, "run", "-n", "2", "--", "sh", "-c", script});
  };
  EXPECT_EQ(run("[ $CAPSTAN_RANK = 1 ] && exit 3; exec sleep 1000").status, 3);
  EXPECT_EQ(run("[ $CAPSTAN_RANK = 1 ] && kill -TERM $PPID; exec sleep 1000").status, 128 + 15);
  const auto death = run(
      fmt::format("[ $CAPSTAN_RANK = 1 ] || exec {0} loop 10; {0} kill 10; true", WORKER_PROGRAM));
  EXPECT_THAT(death.output, HasSubstr("PeerLost 1:")) << death.output;
}

TEST_P(RefusedCalls, LeaveTheOtherCommandsAlive) {
  const auto perf = without("all", {CAPSTAN_PROGRAM, "perf", "-n", "2", "-e", "64", "--rounds", "2",
                                    "--seconds", "0.01"});
  EXPECT_EQ(perf.status, 0) << perf.output;
  EXPECT_THAT(perf.output, HasSubstr("# wrong values: 0"));
  EXPECT_EQ(without("all", {CAPSTAN_PROGRAM, "doctor"}).status, 0);
}

/// The right to a call that is lost in mid-job, or before the first call: results are right by
/// another way, or an error says at once which call was refused, why, and what helps.
TEST(LostRights, AreDoneWithoutOrNamedAtOnce) {
  std::vector<std::string> calls{"all"};
  if (::geteuid() == 0) calls.emplace_back("setuid");
  for (const CallPattern& call : optional_calls()) {
    // Each costs two jobs: under the sanitizers those that ranks copy by are enough.
    if (!sanitized || std::string{call.name}.starts_with("process_vm"))
      calls.emplace_back(call.name);
  }
  for (const std::string& call : calls)
    for (const char* when : {"loses", "loses-first"})
      for (const char* single_copy : {"1", "0"}) {
        if (single_copy == std::string{"0"} && call != "all") continue;  // that loses all of them
        const auto result =
            run_command({CAPSTAN_PROGRAM, "run", "-n", "2", "--", WORKER_PROGRAM, when, call},
                        {{"CAPSTAN_SINGLE_COPY", single_copy}, {"CAPSTAN_TIMEOUT", "120"}});
        SCOPED_TRACE(call + " " + when + " " + result.output);
        if (occurrences(result.output, "seccomp is not to be had") > 0) GTEST_SKIP();
        EXPECT_EQ(occurrences(result.output, "TimedOut"), 0);
        if (occurrences(result.output, "right results") == 2) continue;
        EXPECT_THAT(result.output,
                    ContainsRegex("rank [01]: copy between its memory and that of rank"));
        EXPECT_THAT(result.output, HasSubstr("Operation not permitted"));
        EXPECT_THAT(result.output, HasSubstr("CAPSTAN_SINGLE_COPY=0"));
        EXPECT_EQ(occurrences(call, "process_vm") + occurrences(call, "all") +
                      occurrences(call, "setuid"),
                  1);
        EXPECT_STREQ(single_copy, "1");
      }
}

/// Calls that may be needed: results are right, or errors at once name what failed.
TEST(LostRights, OfNeededCallsHangNothing) {
  for (const CallPattern& call : needed_calls())
    for (const char* hosts : {"0", "2"}) {
      const std::string name{call.name};
      const auto result =
          run_command({CAPSTAN_PROGRAM, "run", "-n", "2", "--", WORKER_PROGRAM, "loses", name},
                      {{"CAPSTAN_VIRTUAL_HOSTS", hosts}, {"CAPSTAN_TIMEOUT", "120"}});
      SCOPED_TRACE(name + " " + hosts + " " + result.output);
      if (occurrences(result.output, "seccomp is not to be had") > 0) GTEST_SKIP();
      EXPECT_EQ(occurrences(result.output, "TimedOut"), 0);
      EXPECT_EQ(occurrences(result.output, "deadline"), 0);
      if (occurrences(result.output, "right results") == 2) continue;
      if (name == "futex")  // without which glibc ends a process
        EXPECT_THAT(result.output, HasSubstr("PeerLost 0"));
      else
        EXPECT_THAT(result.output, HasSubstr("Operation not permitted"));
    }
}

/// A call that cannot be done without is named at once: nothing hangs.
TEST_P(RefusedCalls, AreNamedWhereTheyAreNeeded) {
  const auto result = without("signalfd", {CAPSTAN_PROGRAM, "run", "-n", "2", "--", "true"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.output, HasSubstr("signalfd failed: "));
}

}  // namespace
}  // namespace capstan
