// SPDX-License-Identifier: Apache-2.0

// How busy a machine is, by a clock and counters that are made up.

#include "core/profiles/machine_state.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "tests/temporary_folder.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;

/// A machine of four processors. Time passes only by pass().
class MadeUpMachine {
 public:
  MachineReading now() const { return reading_; }
  /// Seconds, and how many processors other programs use meanwhile.
  MachineReading pass(double seconds, double others = 0) {
    reading_.seconds += seconds;
    reading_.busy += seconds * (1 + others);
    reading_.used += seconds, reading_.ran += seconds;
    return reading_;
  }
  MachineReading& counters() { return reading_; }

 private:
  MachineReading reading_{.host = 1, .load = 1.5, .processors = 4, .megahertz = 3000, .core = 2};
};

MachineState state_between(const MachineReading& from, const MachineReading& to) {
  const MachineStretch stretch{from, to};
  return MachineState::of(std::span{&stretch, 1});
}

TEST(MachineState, IsQuietWhereOnlyTheRankRuns) {
  MadeUpMachine machine;
  const MachineReading before = machine.now();
  const MachineState state = state_between(before, machine.pass(1));
  EXPECT_FALSE(state.busy());
  EXPECT_EQ(state.text(), "quiet: load 1.50, other programs used 0 % of 4 processors");
}

TEST(MachineState, NamesEveryCauseOfBeingBusy) {
  const auto text_after = [](auto change) {
    MadeUpMachine machine;
    const MachineReading before = machine.now();
    machine.pass(1);
    change(machine);
    const MachineState state = state_between(before, machine.now());
    EXPECT_TRUE(state.busy()) << state.text();
    return state.text();
  };
  EXPECT_THAT(text_after([](auto& m) { m.pass(1, 3); }), HasSubstr("other programs used 38 %"));
  EXPECT_THAT(text_after([](auto& m) { m.counters().waited += 1; }),
              HasSubstr("a rank waited for its core: 50 %"));
  EXPECT_THAT(text_after([](auto& m) { m.counters().stolen += 1; }),
              HasSubstr("the hypervisor took 25 %"));
  EXPECT_THAT(text_after([](auto& m) { m.counters().megahertz = 1500; }),
              HasSubstr("the frequency fell by 50 %"));
  EXPECT_THAT(text_after([](auto& m) { m.counters().throttled += 3; }),
              HasSubstr("slowed down 3 times by heat or a quota"));
}

/// Processors count in hundredths of a second: a moment has too few of these.
TEST(MachineState, JudgesProcessorsOnlyAfterAMoment) {
  MadeUpMachine machine;
  const MachineReading before = machine.now();
  EXPECT_FALSE(state_between(before, machine.pass(0.02, 3)).busy());
  machine.counters().waited += 0.02;
  EXPECT_TRUE(state_between(before, machine.now()).busy())
      << "what a thread waits is known exactly";
}

TEST(MachineState, RanksOfAMachineAreNotOthers) {
  MadeUpMachine machine;
  const MachineReading before = machine.now();
  machine.pass(1, 3);  // three of them are ranks, too
  const std::vector<MachineStretch> ranks(4, {before, machine.now()});
  EXPECT_FALSE(MachineState::of(ranks).busy());
  std::vector<MachineStretch> waiting(8, {before, machine.now()});
  for (MachineStretch& each : waiting) each.to.waited += 1;
  EXPECT_FALSE(MachineState::of(waiting).busy()) << "eight ranks on four processors wait";
}

TEST(MachineState, APatientOneWaitsUntilItIsQuietAndNoLonger) {
  MadeUpMachine machine;
  int looks = 0;
  const auto busy_for = [&](int busy_looks) {
    looks = 0;
    return await_quiet(10, [&machine, &looks, busy_looks] {
      return machine.pass(moment_to_look, looks++ < busy_looks ? 3 : 0);
    });
  };
  EXPECT_FALSE(busy_for(5).busy());
  EXPECT_LE(looks, 7);
  EXPECT_TRUE(busy_for(1 << 20).busy());
  EXPECT_NEAR(looks * moment_to_look, 10, 1) << "by the clock of the readings";
}

TEST(MachineState, IsReadFromTheFilesOfTheSystem) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "proc/thread-self");
  std::ofstream{folder / "proc/stat"}
      << "cpu  100 50 25 900 7 5 20 300 0 0\ncpu0 1\ncpu1 1\nintr 5\n";
  std::ofstream{folder / "proc/loadavg"} << "2.25 1.00 0.50 3/200 999\n";
  std::ofstream{folder / "proc/thread-self/schedstat"} << "3000000000 500000000 7\n";
  const MachineReading read = read_machine(folder.path());
  EXPECT_EQ(read.processors, 2);
  EXPECT_DOUBLE_EQ(read.load, 2.25);
  EXPECT_NEAR(read.busy, 2, 1e-9);
  EXPECT_NEAR(read.stolen, 3, 1e-9);
  EXPECT_DOUBLE_EQ(read.ran, 3);
  EXPECT_DOUBLE_EQ(read.waited, 0.5);
  EXPECT_EQ(read.megahertz, 0) << "there is no such file";
  EXPECT_GT(read_machine().busy, 0);
}

}  // namespace
}  // namespace capstan
