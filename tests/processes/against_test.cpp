// SPDX-License-Identifier: Apache-2.0

// `capstan perf --against` over several hosts, and the remote shell that it gives to other
// launchers.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "capstan/error.hpp"
#include "core/tools/launcher/remote_shell.hpp"
#include "tests/processes/testbed.hpp"
#include "tests/temporary_folder.hpp"

namespace capstan {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Skips the test where no test bed can be made.
#define REQUIRE_BED(result) \
  if ((result).status == 77) GTEST_SKIP() << (result).output

/// A folder for the files of one test.
struct Folder : test::TemporaryFolder {
  std::string write_program(const std::string& name, const std::string& text) const {
    std::ofstream{*this / name} << text;
    fs::permissions(*this / name, fs::perms::owner_all);
    return *this / name;
  }
};

/// The libraries that this build can compare with.
std::vector<std::string> installed_peers() {
  const fs::path workers = fs::path{CAPSTAN_PROGRAM}.parent_path() / "../libexec/capstan";
  std::vector<std::string> peers;
  for (const char* peer : {"openmpi", "mpich", "gloo"})
    if (fs::exists(workers / fmt::format("{}_worker", peer))) peers.emplace_back(peer);
  return peers;
}

/// Every peer has a figure in every cell, and the results were right.
void expect_all_cells(const CommandResult& result, int ranks) {
  EXPECT_EQ(result.status, 0) << result.output;
  for (const char* cell : {"all_reduce +{} +8 ", "all_reduce +{} +64K ", "barrier +{} +8 "})
    EXPECT_THAT(result.output, ContainsRegex(fmt::format(fmt::runtime(cell), ranks)));
  EXPECT_THAT(result.output, Not(ContainsRegex("[0-9%] +- ")));
  EXPECT_THAT(result.output, HasSubstr("(geometric mean)"));
  EXPECT_THAT(result.output, Not(ContainsRegex("[0-9] (wrong|WRONG)")));
}

CommandResult comparison(int hosts, const std::string& places, const std::string& peers) {
  return beside_hosts(
      hosts,
      fmt::format("on 0 $CAPSTAN perf all_reduce,barrier --hosts {} --agent \"$BED_EXEC {{host}}\" "
                  "--against {} --sizes 8,64K --rounds 2 --seconds 0.01",
                  places, peers));
}

/// Libraries of MPI spin while they start: without a core for each rank they take minutes.
constexpr const char* too_few_cores = "there is no core for each rank";
bool cores_for(int ranks) {
  cpu_set_t own;
  CPU_ZERO(&own);
  return ::sched_getaffinity(0, sizeof own, &own) != 0 || CPU_COUNT(&own) >= ranks;
}

TEST(Against, ComparesAllLibrariesBetweenHosts) {
  const auto peers = installed_peers();
  if (peers.empty()) GTEST_SKIP() << "no library to compare with, or built with sanitizers";
  const std::string all = fmt::format("{}", fmt::join(peers, ","));
  const auto one_each = comparison(2, "${host[0]}:1,${host[1]}:1", all);
  REQUIRE_BED(one_each);
  expect_all_cells(one_each, 2);
  EXPECT_THAT(one_each.output, HasSubstr(":1 over eth0"));
  EXPECT_THAT(leftovers(), IsEmpty());
  if (!cores_for(4)) GTEST_SKIP() << "two ranks each were left out: " << too_few_cores;
  const auto two_each = comparison(2, "${host[0]}:2,${host[1]}:2", all);
  expect_all_cells(two_each, 4);
  EXPECT_THAT(leftovers(), IsEmpty());
}

TEST(Against, ComparesOverThreeHosts) {
  const auto peers = installed_peers();
  if (peers.empty()) GTEST_SKIP() << "no library to compare with, or built with sanitizers";
  if (!cores_for(3)) GTEST_SKIP() << too_few_cores;
  const auto result = comparison(3, "${host[0]}:1,${host[1]}:1,${host[2]}:1", peers.front());
  REQUIRE_BED(result);
  expect_all_cells(result, 3);
}

/// Two strangers connect to the coordinator's port before the peer's ranks do: one sends random
/// bytes, the other does not know the secret.
TEST(Against, AStrangerAtTheCoordinatorsPortChangesNothing) {
  const auto peers = installed_peers();
  if (std::ranges::find(peers, "openmpi") == peers.end())
    GTEST_SKIP() << "no libopenmpi-dev, or built with sanitizers";
  const Folder folder;
  folder.write_program("mpirun.openmpi", R"(#!/bin/bash
    exec 3<>"/dev/tcp/${CAPSTAN_COORDINATOR%:*}/${CAPSTAN_COORDINATOR##*:}" && head -c 4000 /dev/urandom >&3
    CAPSTAN_COORDINATOR_SECRET=0123456789abcdef CAPSTAN_RANK=0 CAPSTAN_SIZE=1 CAPSTAN_LOCAL_RANK=0 \
      CAPSTAN_LOCAL_SIZE=1 CAPSTAN_STORE=127.0.0.1:1 CAPSTAN_SECRET=0123456789abcdef \
      $WORKER && exit 1
    PATH=${PATH#*:} exec mpirun.openmpi "$@"
)");
  const auto worker = fs::path{CAPSTAN_PROGRAM}.parent_path() / "../libexec/capstan/capstan_worker";
  const auto result = run_command(
      {CAPSTAN_PROGRAM, "perf", "all_reduce,barrier", "-n", "2", "--against", "openmpi", "--sizes",
       "8,64K", "--rounds", "2", "--seconds", "0.01"},
      {{"PATH", folder.path().string() + ":" + std::getenv("PATH")}, {"WORKER", worker.string()}});
  expect_all_cells(result, 2);
  EXPECT_THAT(result.output, HasSubstr("secret"));
}

TEST(RemoteShell, ACommandIsReadOnceWhateverTheAgentMakesOfIt) {
  const Folder folder;
  // The first agent joins its arguments and lets a shell parse them, as ssh does. The second passes
  // them on unchanged.
  const auto shell_between = folder.write_program("ssh-like",
                                                  "#!/bin/sh\nexport MARK=$1; shift\n"
                                                  "exec sh -c \"$*\"\n");
  for (const std::string& agent : {shell_between + " {host}", std::string{"env MARK={host}"}}) {
    const auto rsh = folder.write_program("rsh", launcher::rsh_script(agent, CAPSTAN_PROGRAM));
    const auto result =
        run_command({rsh, "-x", "-l", "node-7", R"(printf "%s|" "a  b" '$MARK' $MARK;)", "echo",
                     "ö \\\"`echo x`"});
    EXPECT_EQ(result.output, "a  b|$MARK|node-7|ö \"x\n") << agent;
  }
}

TEST(RemoteShell, RefusesWhatIsNoCommand) {
  for (const char* text : {"zz", "6", "00", "6c 73"}) {
    const auto result = run_command({CAPSTAN_PROGRAM, "shell", text});
    EXPECT_EQ(result.status, 2) << text;
    EXPECT_THAT(result.output, HasSubstr("not a command in hexadecimal")) << text;
  }
  EXPECT_THROW(launcher::rsh_script("ssh", "/usr/bin/capstan"), InvalidArgument);
  EXPECT_THROW(launcher::rsh_script("ssh {host}", "/a b/capstan"), InvalidArgument);
}

}  // namespace
}  // namespace capstan
