// SPDX-License-Identifier: Apache-2.0

// Collectives among real processes, as `capstan run` starts them: right results, and the right
// error on every rank when something goes wrong.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "algorithms/registry.hpp"
#include "capstan/types.hpp"
#include "tests/processes/processes.hpp"
#include "tests/processes/stopped_rank.hpp"
#include "tests/sanitizers.hpp"
#include "tests/variants_of.hpp"
#include "transports/ofi/ofi_transport.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using Environment = std::vector<std::pair<std::string, std::string>>;

CommandResult run_ranks(int ranks, const std::string& what, const std::string& argument = "",
                        const Environment& environment = {}) {
  return run_command(
      {CAPSTAN_PROGRAM, "run", "-n", std::to_string(ranks), "--", WORKER_PROGRAM, what, argument},
      environment);
}

class Processes : public ::testing::Test {
 protected:
  void TearDown() override { EXPECT_THAT(leftovers(), ::testing::IsEmpty()); }
};

void knows_every_type_and_operation(const std::vector<int>& rank_counts) {
  for (const int ranks : rank_counts) {
    const auto result = run_ranks(ranks, "everything");
    EXPECT_EQ(result.status, 0) << ranks << " ranks: " << result.output;
  }
}
TEST_F(Processes, EveryTypeAndOperation) {
  knows_every_type_and_operation({1, 3});
}
TEST_F(Processes, EveryTypeAndOperationOfOtherNumbersOfRanks) {
  if (sanitized) GTEST_SKIP() << "as with 3 ranks";
  knows_every_type_and_operation({2, 5});
}

/// Under a sanitizer, each third variant: processes take long to start then.
TEST_F(Processes, EveryAlgorithm) {
  int number = 0;
  for (const Collective collective : all_collectives())
    for (const Algorithm& algorithm : algorithms(collective))
      for (const std::string& variant : variants_of(algorithm)) {
        if (sanitized && number++ % 3 != 0) continue;
        const std::string name{name_of(collective)};
        const auto result = run_ranks(
            4, "few_types", name,
            {{"CAPSTAN_ALGORITHM", fmt::format("{}:{}", name, variant)}, {"CAPSTAN_CHUNK", "16k"}});
        EXPECT_EQ(result.status, 0) << name << ", " << variant << ": " << result.output;
      }
}

TEST_F(Processes, RandomDelaysAndMoreRanksThanCores) {
  for (const int ranks : {4, 9}) {
    const auto result = run_ranks(ranks, "delays");
    EXPECT_EQ(result.status, 0) << result.output;
  }
}

/// By hand for hours: see docs/testing.md.
TEST_F(Processes, RandomCallsOfAllKinds) {
  const auto result = run_ranks(3, "calls", "4");
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST_F(Processes, EverySurvivorNamesTheRankThatWasKilled) {
  for (const char* count : {"2", "5000", "1000000"}) {
    // The shell hides the death from the launcher, which would end the others.
    const auto result = run_command({CAPSTAN_PROGRAM, "run", "-n", "4", "--", "sh", "-c",
                                     fmt::format("{} kill {}; true", WORKER_PROGRAM, count)});
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_EQ(occurrences(result.output, "PeerLost 1:"), 3) << count << ": " << result.output;
  }
}

/// `victims` of four ranks die before anybody notices: the two survivors name both.
void both_are_named(const char* what, int first, int second, const Environment& environment) {
  const std::string victims = fmt::format("{},{}", first, second);
  const auto result =
      run_command({CAPSTAN_PROGRAM, "run", "-n", "4", "--bind", "none", "--", "sh", "-c",
                   fmt::format("{} {} {}; true", WORKER_PROGRAM, what, victims)},
                  environment);
  SCOPED_TRACE(fmt::format("{}, {} hosts\n{}", what, environment[1].second, result.output));
  EXPECT_EQ(occurrences(result.output, fmt::format("lost {}: rank {} (", victims, first)), 2);
  EXPECT_EQ(occurrences(result.output, fmt::format(", and rank {} (", second)), 2);
}

/// A rank of a ring or a chain talks to its neighbours alone, and the first of a chain has finished
/// calls that others wait for.
TEST_F(Processes, RanksThatDieTogetherAreAllNamedByEverySurvivor) {
  for (const char* what : {"outlive", "outlive_broadcasts"})
    for (const char* hosts : {"4", "2", "0"})
      for (int second = 1; second < 4; ++second)
        for (int first = 0; first < second; ++first)
          both_are_named(what, first, second,
                         {{"CAPSTAN_ALGORITHM", "all_reduce:ring;all_gather:ring;broadcast:chain"},
                          {"CAPSTAN_VIRTUAL_HOSTS", hosts},
                          {"CAPSTAN_NETWORK", "tcp"}});
}

/// The error of a message names the ranks, the call, the cause and the remedy, as that of a
/// collective does, and comes long before the time-out where a rank is gone.
class MessagesToTheDead : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

INSTANTIATE_TEST_SUITE_P(Of, MessagesToTheDead,
                         ::testing::Combine(::testing::Values("shm", "tcp", "ofi"),
                                            ::testing::Values("kill", "stop", "leave")),
                         [](const auto& test) {
                           return fmt::format("{}_{}", std::get<0>(test.param),
                                              std::get<1>(test.param));
                         });

TEST_P(MessagesToTheDead, EndWithAnErrorThatSaysAll) {
  const std::string network = std::get<0>(GetParam()), how = std::get<1>(GetParam());
  if (network == "ofi" && !ofi_report().available) GTEST_SKIP() << ofi_report().reason;
  const bool stops = how == "stop";
  const auto result =
      run_command({CAPSTAN_PROGRAM, "run", "-n", "4", "--keep-going", "--timeout", "100", "--",
                   "sh", "-c", fmt::format("{} outlive_in_messages {}; true", WORKER_PROGRAM, how)},
                  {{"CAPSTAN_VIRTUAL_HOSTS", network == "shm" ? "0" : "4"},
                   {"CAPSTAN_NETWORK", network == "shm" ? "tcp" : network},
                   {"CAPSTAN_TIMEOUT", stops ? "0.5" : "90"}});
  SCOPED_TRACE(result.output);
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(occurrences(result.output, "has ended"), 0);
  const auto has = [&](const std::string& call, const std::string& culprits, int times) {
    EXPECT_EQ(occurrences(result.output, "] " + call + " lost " + culprits + ": rank "), times)
        << call;
  };
  const std::string gone = how == "kill" ? "2,3" : "2";
  for (const char* call : {"receive", "probe"}) has(call, gone, 2);
  has("send", gone, stops ? 1 : 2);
  if (!stops) {
    for (const char* call : {"receive again", "long receive", "asking", "exchange", "is_completed",
                             "wait_for 0", "wait_for 1 us", "wait_any", "wait_all of two groups"})
      has(call, gone, 2);
    for (const char* call : {"receive of any", "probe of any", "asking any"}) has(call, "1,2,3", 1);
  }
  const int all = stops ? 5 : 27;
  EXPECT_GE(occurrences(result.output, stops ? "is stopped (by SIGSTOP" : ") is gone ("), all);
  EXPECT_EQ(occurrences(result.output,
                        stops ? "resume it (kill -CONT)"
                              : "find out why it ended; messages between other ranks continue"),
            all);
  EXPECT_EQ(occurrences(result.output, stops ? "waited 0.5 s for" : "while it waited for"), all);
  EXPECT_GE(occurrences(result.output, "tag 7"), 3);
}

TEST_F(Processes, ARankThatLeavesIsNamed) {
  const auto result = run_ranks(3, "leave");
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(occurrences(result.output, "PeerLost 1:"), 2) << result.output;
}

TEST_F(Processes, AStoppedRankIsATimeOut) {
  const auto result =
      run_with_a_stopped_rank(WORKER_PROGRAM " stop 100", {{"CAPSTAN_TIMEOUT", "1"}});
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_EQ(occurrences(result.output, "TimedOut: rank 1 (host "), 2) << result.output;
  EXPECT_EQ(occurrences(result.output, ") is stopped (by SIGSTOP or a debugger)"), 2)
      << result.output;
}

TEST_F(Processes, DifferentCountsAreNamedOnEveryRank) {
  for (const char* count : {"10", "3000", "1000000"}) {
    const auto result = run_ranks(3, "mismatch", count, {{"CAPSTAN_TIMEOUT", "20"}});
    EXPECT_EQ(occurrences(result.output, "Mismatch:"), 3) << result.output;
    EXPECT_THAT(result.output, HasSubstr("all_reduce(20 x f32, sum)"));
    EXPECT_THAT(result.output, HasSubstr(fmt::format("all_reduce({} x f32, sum)", count)));
  }
}

/// Ranks compare the schedules that run: those of few elements are the same.
TEST_F(Processes, SchedulesThatDifferAreAMismatch) {
  const auto result = run_ranks(3, "own_schedules", "", {{"CAPSTAN_TIMEOUT", "20"}});
  EXPECT_EQ(occurrences(result.output, "50 elements: true"), 3) << result.output;
  EXPECT_EQ(occurrences(result.output, "Mismatch:"), 3) << result.output;
  EXPECT_EQ(occurrences(result.output, "1000 elements"), 0) << result.output;
}

TEST_F(Processes, DifferentCallsAreNamedOnEveryRank) {
  const std::pair<const char*, const char*> cases[] = {{"collective", "scan(1000 x f32, sum)"},
                                                       {"type", "all_reduce(1000 x i32, sum)"},
                                                       {"operation", "all_reduce(1000 x f32, max)"},
                                                       {"root", "broadcast(1000 x f32, root 1)"},
                                                       {"exchange", "rank 1 sends 11 elements"}};
  for (const auto& [about, text] : cases) {
    const auto result = run_ranks(3, "disagree", about, {{"CAPSTAN_TIMEOUT", "20"}});
    EXPECT_EQ(occurrences(result.output, "Mismatch:"), 3) << about << ": " << result.output;
    EXPECT_THAT(result.output, HasSubstr(text)) << about;
  }
}

/// KiB of shared memory, for each rank, after calls of up to so many elements.
std::vector<int> held(int ranks, std::size_t elements, const Environment& environment = {}) {
  const auto result = run_ranks(ranks, "holds", std::to_string(elements), environment);
  EXPECT_EQ(result.status, 0) << result.output;
  std::vector<int> kilobytes;
  const std::string before = "holds ";
  for (auto at = result.output.find(before); at != std::string::npos;
       at = result.output.find(before, at + 1))
    kilobytes.push_back(std::atoi(result.output.c_str() + at + before.size()));
  return kilobytes;
}

/// Until long calls ask for more at most places in both regions of the long slots, 2 MiB each, and
/// rings for messages, 1.5 MiB. Which regions are touched depends on the algorithms, so on the
/// machine. Long calls hold as much as a chunk says: six blocks of four chunks.
TEST_F(Processes, HoldLittleMemory) {
  using ::testing::AllOf, ::testing::Each, ::testing::ElementsAre, ::testing::Gt, ::testing::Lt;
  if (!std::ifstream{"/proc/self/smaps"}) GTEST_SKIP() << "needs /proc/self/smaps";
  constexpr std::size_t few = 4096, many = 1 << 20;
  const auto between = [](int least, int most) { return Each(AllOf(Gt(least), Lt(most))); };
  const auto staged = [](const char* chunk) {
    return Environment{{"CAPSTAN_CHUNK", chunk}, {"CAPSTAN_SINGLE_COPY", "0"}};
  };
  EXPECT_THAT(held(1, many), ElementsAre(0)) << "nothing to stage";
  for (const char* rules : {"", "all_reduce:direct", "all_reduce:ring"})
    EXPECT_THAT(held(4, few, {{"CAPSTAN_ALGORITHM", rules}}), between(0, 6 << 10)) << rules;
  if (sanitized) return;  // long calls take long then, and hold as much
  EXPECT_THAT(held(4, many, staged("64k")), between(0, 4 << 10));
  EXPECT_THAT(held(4, many, staged("256k")), between(1 << 10, 10 << 10));
}

TEST_F(Processes, GroupsOverlapAndOutliveEachOther) {
  for (const int ranks : {2, 3, 5, 8}) {
    const auto result = run_ranks(ranks, "groups");
    EXPECT_EQ(result.status, 0) << ranks << " ranks: " << result.output;
  }
}

/// Hosts with different numbers of ranks, in the world and in groups.
TEST_F(Processes, HostsNeedNotBeEven) {
  for (const auto& [ranks, what] : {std::pair{3, "delays"}, {4, "groups"}, {5, "groups"}}) {
    const auto result =
        run_ranks(ranks, what, "", {{"CAPSTAN_VIRTUAL_HOSTS", "2"}, {"CAPSTAN_NETWORK", "tcp"}});
    EXPECT_EQ(result.status, 0) << ranks << " ranks, " << what << ": " << result.output;
  }
}

TEST_F(Processes, AHundredThousandMessages) {
  const auto result = run_ranks(5, "messages", sanitized ? "20000" : "100000");
  EXPECT_EQ(result.status, 0) << result.output;
  const auto fragments =
      run_ranks(5, "messages", sanitized ? "4000" : "10000", {{"CAPSTAN_SINGLE_COPY", "0"}});
  EXPECT_EQ(fragments.status, 0) << fragments.output;
}

/// One rank stores as much of 160 MB in messages as it may. Over a network it is less: each message
/// that waits at its sender takes a round trip.
TEST_F(Processes, MessagesThatNobodyAsksForTakeLittleMemory) {
  constexpr int limit = 4, others = 30;
  for (const auto& [hosts, network] : {std::pair{"0", "tcp"}, {"2", "tcp"}, {"2", "ofi"}}) {
    if (network == std::string{"ofi"} && !ofi_report().available) continue;
    const char* const messages = sanitized ? "2000" : *hosts == '0' ? "20000" : "6000";
    const auto result = run_ranks(2, "flood", messages,
                                  {{"CAPSTAN_UNEXPECTED_MESSAGES", std::to_string(limit) + "m"},
                                   {"CAPSTAN_VIRTUAL_HOSTS", hosts},
                                   {"CAPSTAN_NETWORK", network}});
    EXPECT_EQ(result.status, 0) << result.output;
    const auto found = result.output.find("stored ");
    ASSERT_NE(found, std::string::npos) << result.output;
    if (sanitized) continue;
    EXPECT_LE(std::atoi(result.output.c_str() + found + 7), limit + others);
  }
}

TEST_F(Processes, OneLimitOfUnexpectedMessagesHoldsForAllRanks) {
  const auto result =
      run_command({CAPSTAN_PROGRAM, "run", "-n", "2", "--", "sh", "-c",
                   fmt::format("CAPSTAN_UNEXPECTED_MESSAGES=$((1 + CAPSTAN_RANK))m {} rank; true",
                               WORKER_PROGRAM)});
  EXPECT_EQ(occurrences(result.output, "Mismatch:"), 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("the same CAPSTAN_CHUNK, CAPSTAN_RAILS, "
                                       "CAPSTAN_UNEXPECTED_MESSAGES, CAPSTAN_WIRE"));
}

/// A call that one rank refuses would leave the others waiting.
TEST_F(Processes, AllRanksProveAlike) {
  for (const char* variable : {"CAPSTAN_PROVE", "CAPSTAN_PROOF_LIMIT"}) {
    const bool limit = std::string_view{variable} == "CAPSTAN_PROOF_LIMIT";
    const auto result = run_command({CAPSTAN_PROGRAM, "run", "-n", "2", "--", "sh", "-c",
                                     fmt::format("{}=$(({}CAPSTAN_RANK)) {} rank; true", variable,
                                                 limit ? "2 + " : "", WORKER_PROGRAM)});
    EXPECT_EQ(occurrences(result.output, "Mismatch:"), 2) << result.output;
    EXPECT_THAT(result.output, HasSubstr(variable));
  }
}

TEST_F(Processes, ASenderThatDiesIsNamed) {
  const auto result = run_command({CAPSTAN_PROGRAM, "run", "-n", "3", "--", "sh", "-c",
                                   fmt::format("{} receive; true", WORKER_PROGRAM)});
  EXPECT_EQ(occurrences(result.output, "PeerLost 1:"), 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("message from rank 1 with tag 3"));
}

TEST_F(Processes, OperationsInFlightOutlastALateRank) {
  for (const char* thread : {"0", "1"}) {
    const auto result = run_ranks(3, "async", "late", {{"CAPSTAN_PROGRESS_THREAD", thread}});
    EXPECT_EQ(result.status, 0) << result.output;
  }
}

TEST_F(Processes, OperationsInFlightEndWhenARankStopsOrDies) {
  for (const char* thread : {"0", "1"}) {
    const auto stopped = run_with_a_stopped_rank(WORKER_PROGRAM " async stopped",
                                                 {{"CAPSTAN_PROGRESS_THREAD", thread}});
    EXPECT_EQ(occurrences(stopped.output, "DeadlineExceeded, 1 callbacks"), 2) << stopped.output;
    const auto killed = run_command({CAPSTAN_PROGRAM, "run", "-n", "3", "--", "sh", "-c",
                                     fmt::format("{} async killed; true", WORKER_PROGRAM)},
                                    {{"CAPSTAN_PROGRESS_THREAD", thread}});
    EXPECT_EQ(occurrences(killed.output, "PeerLost 1:"), 2) << killed.output;
    EXPECT_EQ(occurrences(killed.output, "1 callbacks"), 2) << killed.output;
  }
}

TEST_F(Processes, DifferentAlgorithmsAreAMismatch) {
  const auto result = run_command(
      {CAPSTAN_PROGRAM, "run", "-n", "2", "--", "sh", "-c",
       fmt::format("if [ $CAPSTAN_RANK = 1 ]; then export CAPSTAN_ALGORITHM=all_reduce:ring; fi; "
                   "{} everything; true",
                   WORKER_PROGRAM)},
      {{"CAPSTAN_TIMEOUT", "20"}});
  EXPECT_EQ(occurrences(result.output, "Mismatch:"), 2) << result.output;
}

TEST_F(Processes, ARankThatNeverJoinsIsNamed) {
  const auto result = run_ranks(3, "silent", "2", {{"CAPSTAN_JOIN_TIMEOUT", "1.5"}});
  EXPECT_EQ(occurrences(result.output, "rank 2"), 2) << result.output;
  EXPECT_EQ(occurrences(result.output, "Error:"), 2) << result.output;
}

TEST_F(Processes, WrongSecretIsRefused) {
  const auto result = run_command(
      {CAPSTAN_PROGRAM, "run", "-n", "2", "--", "sh", "-c",
       fmt::format("if [ $CAPSTAN_RANK = 1 ]; then export CAPSTAN_SECRET=0123456789abcdef0123; fi; "
                   "exec {} rank",
                   WORKER_PROGRAM)},
      {{"CAPSTAN_JOIN_TIMEOUT", "3"}});
  EXPECT_EQ(occurrences(result.output, "Error:"), 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("secret"));
}

TEST_F(Processes, BadSettingsAreExplained) {
  const auto algorithm =
      run_command({WORKER_PROGRAM, "rank"}, {{"CAPSTAN_ALGORITHM", "all_reduce:quantum"}});
  EXPECT_THAT(algorithm.output, HasSubstr("choose one of flat,"));
  const auto chunk = run_command({WORKER_PROGRAM, "rank"}, {{"CAPSTAN_CHUNK", "lots"}});
  EXPECT_THAT(chunk.output, HasSubstr("CAPSTAN_CHUNK='lots'"));
  const auto rails = run_command({WORKER_PROGRAM, "rank"}, {{"CAPSTAN_RAILS", "9"}});
  EXPECT_THAT(rails.output, HasSubstr("CAPSTAN_RAILS='9': expected a number from 1 to 8"));
  const auto wire = run_command({WORKER_PROGRAM, "rank"}, {{"CAPSTAN_WIRE", "secret"}});
  EXPECT_THAT(wire.output,
              HasSubstr("CAPSTAN_WIRE='secret': expected plain, authenticated or encrypted"));
  const auto rank =
      run_command({WORKER_PROGRAM, "rank"}, {{"CAPSTAN_RANK", "3"}, {"CAPSTAN_SIZE", "2"}});
  EXPECT_THAT(rank.output, HasSubstr("CAPSTAN_RANK"));
}

}  // namespace
}  // namespace capstan
