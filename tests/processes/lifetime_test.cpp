// SPDX-License-Identifier: Apache-2.0

// Processes that fork, exit and end at any moment: nobody's results change, and nothing hangs.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/processes/processes.hpp"
#include "tests/sanitizers.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Over shared memory, and over tcp between pretended hosts.
class Lifetime : public ::testing::TestWithParam<const char*> {
 protected:
  void TearDown() override { EXPECT_THAT(leftovers(), IsEmpty()); }

  static CommandResult work(int ranks, const std::vector<std::string>& words,
                            std::vector<std::pair<std::string, std::string>> environment = {}) {
    environment.insert(environment.end(), {{"CAPSTAN_VIRTUAL_HOSTS", GetParam()},
                                           {"CAPSTAN_INTERFACE", "lo"},
                                           {"CAPSTAN_TIMEOUT", "60"}});
    std::vector<std::string> command{CAPSTAN_PROGRAM, "run", "-n", std::to_string(ranks),
                                     "--timeout",     "200", "--", WORKER_PROGRAM};
    command.insert(command.end(), words.begin(), words.end());
    return run_command(command, environment);
  }
};

INSTANTIATE_TEST_SUITE_P(Over, Lifetime, ::testing::Values("0", "3"), [](const auto& test) {
  return test.param == std::string{"0"} ? "SharedMemory" : "Tcp";
});

const auto deeds = sanitized ? std::vector<const char*>{"call", "exit"}
                             : std::vector<const char*>{"destroy", "call", "exit", "exec"};

TEST_P(Lifetime, ForkedChildrenChangeNothingForTheirParents) {
  for (const char* moment : {"before", "idle", "flight", "callback", "operation"})
    for (const char* deed : deeds) {
      const auto result = work(3, {"fork", fmt::format("{}:{}", moment, deed)});
      EXPECT_EQ(result.status, 0) << moment << ", " << deed << ": " << result.output;
    }
}

TEST_P(Lifetime, ForkedChildrenOfRanksWithAProgressThreadChangeNothing) {
  for (const char* what : {"idle:destroy", "idle:call", "flight:destroy", "flight:call",
                           "flight:exit", "callback:destroy", "callback:exit", "callback:return"}) {
    const auto result = work(3, {"fork", what}, {{"CAPSTAN_PROGRESS_THREAD", "1"}});
    EXPECT_EQ(result.status, 0) << what << ": " << result.output;
  }
}

TEST_P(Lifetime, AChildThatGoesOnWithItsParentsCallIsStopped) {
  for (const char* what : {"callback:return", "operation:return"}) {
    const auto result = work(3, {"fork", what});
    EXPECT_EQ(result.status, 0) << what << ": " << result.output;
  }
}

/// A thread sanitizer refuses threads in children.
TEST_P(Lifetime, AChildMayJoinAnew) {
  if (sanitized) GTEST_SKIP() << "sanitizers do not follow threads of children";
  for (const char* what : {"before:join", "idle:join", "flight:join"}) {
    const auto result = work(3, {"fork", what});
    EXPECT_EQ(result.status, 0) << what << ": " << result.output;
  }
}

TEST_P(Lifetime, ExitEndsARankWhateverIsUnderWay) {
  for (const char* progress_thread : {"0", "1"})
    for (const char* how : {"static", "function", "thread", "callback", "late"}) {
      const auto result = work(3, {"exit", how}, {{"CAPSTAN_PROGRESS_THREAD", progress_thread}});
      EXPECT_EQ(result.status, 0) << how << ": " << result.output;
    }
}

/// The first thread is in a collective all the time.
TEST_P(Lifetime, ExitInASecondThreadEndsARank) {
  for (const char* progress_thread : {"0", "1"})
    for (int i = 0; i < (sanitized ? 2 : 6); ++i) {
      const auto result =
          work(3, {"exit", "second"}, {{"CAPSTAN_PROGRESS_THREAD", progress_thread}});
      EXPECT_EQ(result.status, 0) << result.output;
    }
}

/// A sender that computes delays nobody, and what it does with its buffer afterwards changes
/// nothing.
TEST(ComputingSenders, TheirMessagesArriveAndAreRight) {
  const test::TemporaryFolder folder;
  const auto result = run_command({CAPSTAN_PROGRAM, "run", "-n", "2", "--timeout", "200", "--",
                                   WORKER_PROGRAM, "computing-senders", folder / "received"});
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST(Descriptors, GroupsOfOneHostNeedNoneOfTheirOwn) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "run", "-n", "4", "--", WORKER_PROGRAM, "descriptors"});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "descriptors of 5 groups: 0"), 4) << result.output;
}

/// Low limits. Ranks get them from a shell; the launcher has none of them.
class Limits : public Lifetime {
 protected:
  static CommandResult limited(const std::string& limit, const std::string& what = "carries",
                               const char* progress_thread = "0") {
    return run_command({CAPSTAN_PROGRAM, "run", "-n", "3", "--timeout", "100", "--", "sh", "-c",
                        fmt::format("{}; exec {} {}", limit, WORKER_PROGRAM, what)},
                       {{"CAPSTAN_VIRTUAL_HOSTS", GetParam()},
                        {"CAPSTAN_INTERFACE", "lo"},
                        {"CAPSTAN_TIMEOUT", "80"},
                        {"CAPSTAN_JOIN_TIMEOUT", "80"},
                        {"CAPSTAN_PROGRESS_THREAD", progress_thread}});
  }
};

INSTANTIATE_TEST_SUITE_P(Over, Limits, ::testing::Values("0", "3"), [](const auto& test) {
  return test.param == std::string{"0"} ? "SharedMemory" : "Tcp";
});

/// A rank works, or says what is missing: it never waits for what cannot come.
TEST_P(Limits, OfDescriptorsAreNamed) {
  if (sanitized || object_types_are_checked())
    GTEST_SKIP() << "the sanitizers need descriptors themselves";
  int works = 0, fails = 0;
  for (const int descriptors : {6, 8, 10, 12, 16, 64}) {
    const auto result = limited(fmt::format("ulimit -n {}", descriptors));
    const bool right = occurrences(result.output, "right sums") == 3;
    right ? ++works : ++fails;
    if (right) continue;
    EXPECT_THAT(result.output, HasSubstr("descriptors")) << descriptors;
    EXPECT_THAT(result.output, HasSubstr("RLIMIT_NOFILE")) << descriptors;
    EXPECT_THAT(result.output, ::testing::Not(HasSubstr("TimedOut"))) << descriptors;
  }
  EXPECT_GT(works, 0);
  EXPECT_GT(fails, 0);
}

TEST_P(Limits, OfMemoryAreNamed) {
  if (sanitized || object_types_are_checked()) GTEST_SKIP() << "the sanitizers map more than that";
  if (GetParam() == std::string{"0"}) {  // segments are files
    EXPECT_THAT(limited("ulimit -f 64").output, HasSubstr("RLIMIT_FSIZE"));
  }
  for (const int mebibytes : {30, 40}) {
    const auto space = limited(fmt::format("ulimit -v {}", mebibytes * 1024));
    EXPECT_THAT(space.output, HasSubstr("RLIMIT_AS")) << mebibytes;
  }
  const auto locked = limited("ulimit -l 0");  // not needed
  EXPECT_EQ(occurrences(locked.output, "right sums"), 3) << locked.output;
}

TEST_P(Limits, OfSharedMemoryAndThreadsAreNamed) {
  const auto without = [](const char* error, const char* call, const char* progress_thread = "0") {
    return limited(
        fmt::format("exec {} {} {} {} {}", REFUSE_PROGRAM, error, call, WORKER_PROGRAM,
                    std::string{call} == "fallocate" ? "shared kinds:all_reduce" : "carries"),
        "carries", progress_thread);
  };
  if (without("ENOSYS", "userfaultfd").status == 77) GTEST_SKIP() << "no seccomp here";
  if (GetParam() == std::string{"0"}) {
    EXPECT_THAT(without("ENOMEM", "memfd_create").output, HasSubstr("memory has run out"));
    EXPECT_THAT(without("ENOSPC", "ftruncate").output, HasSubstr("memory has run out"));
    EXPECT_THAT(without("ENOSPC", "fallocate").output, HasSubstr("memory has run out"));
  }
  if (sanitized) return;  // the leak sanitizer starts a thread at exit
  const auto threads = without("EAGAIN", "threads", "1");
  EXPECT_THAT(threads.output, HasSubstr("cannot start a thread for"));
  EXPECT_THAT(threads.output, HasSubstr("pids.max"));
}

TEST(Descriptors, AreInTheReportOfTheDoctor) {
  const auto result =
      run_command({"sh", "-c", fmt::format("ulimit -n 40; {} doctor", CAPSTAN_PROGRAM)});
  EXPECT_THAT(result.output, HasSubstr("of at most 40 are open"));
  EXPECT_THAT(result.output, HasSubstr("ulimit -n"));
}

}  // namespace
}  // namespace capstan
