// SPDX-License-Identifier: Apache-2.0

// Jobs over several hosts, which are network namespaces: how ranks are started and find each other.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <sstream>
#include <vector>

#include "tests/processes/testbed.hpp"

namespace capstan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Skips the test where there can be no bed.
#define REQUIRE_BED(result) \
  if ((result).status == 77) GTEST_SKIP() << (result).output

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Every rank has met the others, `times` times over, and has seen that many hosts.
void expect_joined(const CommandResult& result, int ranks, int hosts, int times = 1) {
  EXPECT_EQ(result.status, 0) << result.output;
  for (int rank = 0; rank < ranks; ++rank)
    EXPECT_EQ(count_of(result.output, fmt::format("rank {} of {} on ", rank, ranks)), times)
        << result.output;
  EXPECT_EQ(count_of(result.output, fmt::format(", {} hosts, by ", hosts)), ranks * times)
      << result.output;
}

// The bed itself.

TEST(Bed, HostsReachEachOtherUnlessTheCableIsOut) {
  const auto result = beside_hosts(2, R"(
    export MASTER_ADDR=${v4[0]}
    on 1 hostname
    $HOSTS cut ${host[1]}
    CAPSTAN_JOIN_TIMEOUT=1 RANK=1 WORLD_SIZE=2 MASTER_PORT=4711 on 1 $JOINER; echo "cut: $?"
    $HOSTS restore ${host[1]}
    by_hand 0 1; echo "restored: $?")");
  REQUIRE_BED(result);
  EXPECT_THAT(result.output, HasSubstr("-1\n"));
  EXPECT_THAT(result.output, AllOf(HasSubstr("cut: 3"), HasSubstr("10.77.0.1:4711")));
  EXPECT_THAT(result.output, HasSubstr("restored: 0"));
}

TEST(Bed, LosesPacketsAndLimitsRates) {
  const auto result = beside_hosts(2, R"(
    for i in {1..60}; do echo x | on 1 bash -c "cat > /dev/udp/${v4[0]}/4711"; done
    on 0 nft list ruleset
    on 0 tc qdisc show dev eth0)",
                                   {"--loss", "50%", "--rate", "100mbit"});
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("tbf"));
  EXPECT_THAT(result.output, HasSubstr("rate 100Mbit"));
  // Some of 60 packets and a few more must have been lost, and some must have arrived.
  const auto at = result.output.find("counter packets ");
  ASSERT_NE(at, result.output.npos) << result.output;
  const int lost = std::stoi(result.output.substr(at + 16));
  EXPECT_GT(lost, 0);
  EXPECT_LT(lost, 60);
}

TEST(Bed, IsGoneWhateverEndsIt) {
  for (const char* signal : {"TERM", "KILL"}) {
    // timeout(1) is between the script and the command.
    const auto result = beside_hosts(2, fmt::format(R"(
      echo "bed:$BED:"
      on 1 sleep 1000 &
      until [[ $(ip netns pids ${{host[1]}}) ]]; do sleep 0.05; done
      kill -{} $(cut -d' ' -f4 /proc/$PPID/stat)
      wait)",
                                                    signal));
    REQUIRE_BED(result);
    EXPECT_THAT(result.status, ::testing::AnyOf(143, 137)) << result.output;
    const auto at = result.output.find("bed:") + 4;
    const auto bed = result.output.substr(at, result.output.find(':', at) - at);
    for (const auto* folder : {"/run/netns", "/etc/netns"}) {
      if (!std::filesystem::exists(folder)) continue;
      for (const auto& entry : std::filesystem::directory_iterator{folder})
        EXPECT_FALSE(entry.path().filename().string().starts_with(bed)) << entry.path();
    }
  }
}

TEST(Bed, TeachesHowToUseIt) {
  const auto help = run_command({HOSTS, "--help"});
  EXPECT_EQ(help.status, 0);
  EXPECT_THAT(help.output, AllOf(HasSubstr("--count"), HasSubstr("BED_HOSTS"), HasSubstr("77")));
  EXPECT_EQ(run_command({HOSTS, "--count", "0", "--", "true"}).status, 1);
  EXPECT_EQ(run_command({HOSTS}).status, 1);
}

// capstan run --hosts

TEST(HostsRun, RanksOfTwoAndThreeHostsMeetAgainAndAgain) {
  const auto two = beside_hosts(2, "launch ${host[0]}:2,${host[1]}:2 -- $program again");
  REQUIRE_BED(two);
  expect_joined(two, 4, 2, 5);
  EXPECT_EQ(count_of(two.output, "1 of 2 there"), 10);
  const auto three = beside_hosts(3, "launch ${host[2]}:1,${host[0]}:2,${host[1]} -- $program");
  expect_joined(three, 4, 3);
  EXPECT_THAT(three.output, HasSubstr("[0] rank 0 of 4 on bed"));
  EXPECT_THAT(leftovers(), IsEmpty());
}

TEST(HostsRun, ReadsAHostFileAndStartsThroughAnAgentLikeRsh) {
  const auto result = beside_hosts(2, R"(
    printf '%s slots=2\n%s:5  # more than needed\n' ${host[0]} ${host[1]} >/tmp/$BED
    on 0 $CAPSTAN run --hostfile /tmp/$BED -n 3 --agent "$BED_RSH {host}" -- $program
    status=$?; rm /tmp/$BED; exit $status)");
  REQUIRE_BED(result);
  expect_joined(result, 3, 2);
}

TEST(HostsRun, AllReduceIsRight) {
  const auto result = beside_hosts(2, R"(
    launch ${host[0]}:2,${host[1]}:2 -- $CAPSTAN perf all_reduce -b 8 -e 64k --factor 64 \
      --rounds 2 --seconds 0.01)");
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("over 4 ranks"), HasSubstr("wrong values: 0")));
}

TEST(HostsRun, CalibratesMemoryAndNetwork) {
  const auto result = beside_hosts(2, R"(
    launch ${host[0]}:2,${host[1]}:2 -- $CAPSTAN calibrate -o /tmp/$BED.json && \
      cat /tmp/$BED.json && $CAPSTAN simulate barrier -n 8 --topology /tmp/$BED.json
    status=$?; rm -f /tmp/$BED.json; exit $status)");
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("measured with 4 ranks on 2 hosts"), HasSubstr("\"kind\": \"flat\""),
                    HasSubstr("\"send\": "), HasSubstr("on 8 ranks and 4 hosts")));
}

TEST(HostsRun, CalibratesHostsWithDifferentNumbersOfRanks) {
  const auto result = beside_hosts(3, R"(
    launch ${host[0]}:2,${host[1]}:1,${host[2]}:1 -- $CAPSTAN calibrate -o - && \
      launch ${host[1]}:1,${host[0]}:2 -- $CAPSTAN calibrate -o -)");
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, AllOf(HasSubstr("measured with 4 ranks on 3 hosts"),
                                   HasSubstr("measured with 3 ranks on 2 hosts")));
  EXPECT_EQ(count_of(result.output, "\"kind\": \"flat\""), 2) << result.output;
}

TEST(HostsRun, CalibratesAllPlacesOfTheHostsThatItIsGiven) {
  const auto result = beside_hosts(2, R"(
    on 0 "$CAPSTAN" calibrate --hosts "${host[0]}:2,${host[1]}:3" --agent "$BED_EXEC {host}" -o -)");
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("measured with 5 ranks on 2 hosts"));
}

TEST(HostsRun, MeetsByIpv6) {
  const auto result = beside_hosts(2, R"(
    export CAPSTAN_INTERFACE=::/0
    launch ${host[0]}:1,${host[1]}:1 -- sh -c 'echo $CAPSTAN_STORE; exec "$@"' sh $program)");
  REQUIRE_BED(result);
  expect_joined(result, 2, 2);
  EXPECT_EQ(count_of(result.output, "] [fd77::1]:"), 2) << result.output;
}

TEST(HostsRun, PassesOnSettingsVariablesAndStandardInputButNoSecretOnACommandLine) {
  const auto result = beside_hosts(2, R"(
    export CAPSTAN_TIMEOUT=77 OTHER="two words" HIDDEN=1
    seq 100000 | launch ${host[1]}:1,${host[0]}:1 --env OTHER --env "GIVEN=a b" -- bash -c '
      echo "$CAPSTAN_TIMEOUT/$OTHER/$GIVEN/$PWD"
      [[ $CAPSTAN_RANK = 0 ]] && md5sum
      for file in /proc/[0-9]*/cmdline; do
        [[ $(tr "\0" " " 2>/dev/null <$file) != *$CAPSTAN_SECRET* ]] || echo visible in $file
      done')");
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
  const auto here = std::filesystem::current_path().string();
  EXPECT_EQ(count_of(result.output, "77/two words/a b/" + here), 2) << result.output;
  EXPECT_EQ(run_command({"sh", "-c", "seq 100000 | md5sum"}).output,
            result.output.substr(result.output.find(" -") - 33, 36));
  EXPECT_THAT(result.output, Not(HasSubstr("visible")));
}

TEST(HostsRun, AFailedRankIsNamedWithItsHostAndEndsAll) {
  const auto result = beside_hosts(2, R"(
    launch ${host[0]}:1,${host[1]}:2 -- sh -c '[ $CAPSTAN_RANK = 2 ] && exit 7; exec sleep 1000'
    echo "status $?"
    launch ${host[0]}:1,${host[1]}:1 --grace 0.2 -- sh -c '
      trap "" TERM; [ $CAPSTAN_RANK = 1 ] && kill -9 $$; sleep 1000'
    echo "status $?")");
  REQUIRE_BED(result);
  EXPECT_THAT(result.output, ::testing::ContainsRegex(
                                 "rank 2 on host bed.*-1 \\(pid [0-9]+\\) exited with status 7"));
  EXPECT_THAT(result.output, HasSubstr("status 7\n"));
  EXPECT_THAT(result.output, HasSubstr("was killed by signal 9"));
  EXPECT_THAT(result.output, HasSubstr("status 137\n"));
}

TEST(HostsRun, SignalsReachEveryRank) {
  const auto result = beside_hosts(2, R"(
    $BED_EXEC ${host[0]} $CAPSTAN run --hosts ${host[0]}:1,${host[1]}:1 --agent "$BED_EXEC {host}" -- sh -c '
      trap "echo caught; exit 0" USR1
      touch /tmp/$BED.$CAPSTAN_RANK
      for i in $(seq 600); do sleep 0.1; done; exit 1' &
    until [[ -e /tmp/$BED.0 && -e /tmp/$BED.1 ]]; do sleep 0.05; done
    kill -USR1 $!
    wait $!; echo "status $?"; rm -f /tmp/$BED.[01])");
  REQUIRE_BED(result);
  EXPECT_EQ(count_of(result.output, "caught"), 2) << result.output;
  EXPECT_THAT(result.output, HasSubstr("status 0"));
}

TEST(HostsRun, AnAgentThatFailsIsOneError) {
  const auto result = beside_hosts(2, R"(
    launch ${host[0]}:1,nowhere:1 -- $program; echo "status $?"
    on 0 $CAPSTAN run --hosts ${host[1]} --agent "echo hello from {host}" -- $program; echo "status $?"
    launch ${host[1]} --capstan /proc/nowhere/capstan -- $program; echo "status $?"
    launch ${host[1]} --directory /proc/nowhere -- $program; echo "status $?"
    launch ${host[1]} -- /proc/nowhere/program; echo "status $?")");
  REQUIRE_BED(result);
  EXPECT_EQ(count_of(result.output, "status 1\n"), 4) << result.output;
  EXPECT_EQ(count_of(result.output, "status 127\n"), 1) << result.output;
  EXPECT_EQ(count_of(result.output, "capstan run: host "), 5) << result.output;
  EXPECT_THAT(result.output, HasSubstr("host nowhere: no ranks could be started there"));
  EXPECT_THAT(result.output, HasSubstr("it says \"hello from"));
  EXPECT_THAT(result.output, HasSubstr("there is no directory /proc/nowhere"));
  EXPECT_THAT(result.output, HasSubstr("cannot run '/proc/nowhere/program'"));
}

/// All hosts choose alike what runs.
TEST(HostsRun, OneHostOfTwoMayHaveRanksThatShareACore) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  if (cpus.size() < 2) GTEST_SKIP() << "there is one core only";
  const auto result = beside_hosts(2, fmt::format(R"(
    $BED_EXEC ${{host[0]}} $CAPSTAN run --hosts ${{host[0]}}:2,${{host[1]}}:2 \
      --agent "$BED_EXEC {{host}}" --bind none -- sh -c '
        [ $CAPSTAN_RANK -lt 2 ] && cores={0} || cores={0},{1}
        exec taskset -c $cores $CAPSTAN perf all_gather -e 64K -f 8 --rounds 2 --seconds 0.01')",
                                                  cpus[0], cpus[1]));
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("# wrong values: 0"));
}

TEST(HostsRun, AnAgentThatHangsOrIsKilledIsOneError) {
  const auto result = beside_hosts(2, R"(
    printf '#!/bin/sh\nexec sleep 1000\n' >/tmp/$BED; chmod +x /tmp/$BED
    CAPSTAN_JOIN_TIMEOUT=1 on 0 $CAPSTAN run --hosts ${host[1]} --agent "/tmp/$BED {host}" -- $program
    echo "hang $?"; rm /tmp/$BED
    launch ${host[0]},${host[1]} -- sh -c '
      [ $CAPSTAN_RANK = 1 ] && kill -9 $PPID; sleep 1000'
    echo "killed $?")");
  REQUIRE_BED(result);
  EXPECT_THAT(result.output, AllOf(HasSubstr("no answer from its agent"), HasSubstr("hang 1")));
  EXPECT_THAT(result.output, AllOf(HasSubstr("was killed by signal 9 while ranks were running"),
                                   HasSubstr("killed 1")));
}

/// The launcher is killed once all ranks run; nothing of the job is left on any host.
std::string killed_launcher(const std::string& agent) {
  return R"(
    $BED_EXEC ${host[0]} $CAPSTAN run --hosts ${host[0]}:1,${host[1]}:2 --agent ")" +
         agent + R"(" -- sh -c '
      sleep 1000 & touch /tmp/$BED.$CAPSTAN_RANK; sleep 1000' &
    until [[ -e /tmp/$BED.0 && -e /tmp/$BED.1 && -e /tmp/$BED.2 ]]; do sleep 0.05; done
    rm /tmp/$BED.[012]
    kill -KILL $!
    for ((i = 0; i < 600; i++)); do
      left=$(for h in ${host[@]}; do ip netns pids $h; done)
      [[ $left ]] || break
      sleep 0.1
    done
    echo "left: $left.")";
}

TEST(HostsRun, AKilledLauncherLeavesNothing) {
  const auto direct = beside_hosts(2, killed_launcher("$BED_EXEC {host}"));
  REQUIRE_BED(direct);
  EXPECT_THAT(direct.output, HasSubstr("left: ."));
  // As through ssh: no signal gets there, only the end of what the launcher says.
  const auto far = beside_hosts(2, killed_launcher("setsid --fork --wait $BED_EXEC {host}"));
  EXPECT_THAT(far.output, HasSubstr("left: ."));
}

TEST(HostsRun, AStoreThatCannotBeReachedIsAnErrorInTime) {
  const auto result = beside_hosts(2, R"(
    CAPSTAN_INTERFACE=lo launch ${host[1]}:2 --env CAPSTAN_JOIN_TIMEOUT=1 -- $JOINER; echo "status $?"
    CAPSTAN_INTERFACE=eth7 launch ${host[0]},${host[1]} -- $JOINER; echo "status $?"
    CAPSTAN_INTERFACE=10.78.0.0/16 launch ${host[0]} -- $JOINER; echo "status $?")");
  REQUIRE_BED(result);
  EXPECT_THAT(result.output, ::testing::ContainsRegex(
                                 "rank [01]: join at store 127.0.0.1:[0-9]+: nothing listens"));
  EXPECT_THAT(result.output,
              AllOf(HasSubstr("CAPSTAN_INTERFACE, on the host"), HasSubstr("status 3")));
  EXPECT_THAT(result.output, AllOf(HasSubstr("\"eth7\": there is no such interface"),
                                   HasSubstr("eth0 10.77.0.1")));
  EXPECT_THAT(result.output, HasSubstr("no address of this host that is up is in it"));
  EXPECT_EQ(count_of(result.output, "status 2\n"), 2) << result.output;
}

// Other launchers: launchers_hosts_test.cpp has those of MPI and Slurm.

TEST(HostsTorchrun, VariablesByHandMeetByAddressAndByName) {
  const auto result = beside_hosts(3, R"(
    for MASTER_ADDR in ${v4[0]} ${v6[0]} [${v6[0]}] ${host[0]}; do
      export MASTER_ADDR
      by_hand 0 1 2 1 || exit
    done)");
  REQUIRE_BED(result);
  expect_joined(result, 4, 3, 4);
}

TEST(HostsTorchrun, ChecksTheInterfaceAgainstTheAddress) {
  const auto result = beside_hosts(2, R"(
    export MASTER_ADDR=${v4[0]} CAPSTAN_JOIN_TIMEOUT=1
    CAPSTAN_INTERFACE=lo by_hand 0 1; echo "status $?"
    CAPSTAN_JOIN_TIMEOUT=60 CAPSTAN_INTERFACE=eth0 MASTER_ADDR=${v6[0]} by_hand 0 1; echo "status $?"
    CAPSTAN_JOIN_TIMEOUT=60 CAPSTAN_INTERFACE=::/0 MASTER_ADDR=${host[0]} by_hand 0 1; echo "status $?"
    export LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
    MASTER_ADDR=127.0.0.1 by_hand 0 1; echo "status $?"
    MASTER_ADDR=10.99.0.1 by_hand 0 1; echo "status $?")");
  REQUIRE_BED(result);
  EXPECT_THAT(result.output, HasSubstr("CAPSTAN_INTERFACE=lo chooses here (lo 127.0.0.1)"));
  EXPECT_EQ(count_of(result.output, "status 0\n"), 2)
      << result.output;  // eth0 has that address, too
  EXPECT_THAT(result.output, HasSubstr("only ranks on one host reach this address"));
  EXPECT_THAT(result.output, HasSubstr("it is not an address of this host"));
  EXPECT_THAT(result.output, HasSubstr("rank 1: join at store 10.99.0.1:4711: unreachable"));
}

TEST(HostsDoctor, SaysWhichInterfaceAndWhy) {
  const auto result = beside_hosts(1, R"(
    on 0 $CAPSTAN doctor
    CAPSTAN_INTERFACE=::/0 on 0 $CAPSTAN doctor
    CAPSTAN_RAILS=2 on 0 $CAPSTAN doctor
    CAPSTAN_INTERFACE=eth7 on 0 $CAPSTAN doctor)");
  REQUIRE_BED(result);
  EXPECT_THAT(result.output, HasSubstr("1, over eth0"));
  EXPECT_THAT(result.output, HasSubstr("2, over eth0, eth0\n"));
  EXPECT_THAT(result.output, HasSubstr("name one for each"));
  EXPECT_THAT(result.output, HasSubstr("eth0 10.77.0.1: the first that is up and connected"));
  EXPECT_THAT(result.output, HasSubstr("eth0 fd77::1: CAPSTAN_INTERFACE names it"));
  EXPECT_THAT(result.output, HasSubstr("\"eth7\": there is no such interface"));
}

}  // namespace
}  // namespace capstan
