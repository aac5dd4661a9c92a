// SPDX-License-Identifier: Apache-2.0

// Ranks listen, once they are connected, on what docs/how-it-works.md says, and on no more.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/processes/testbed.hpp"
#include "tests/processes/processes.hpp"
#include "transports/ofi/ofi_transport.hpp"

namespace capstan {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Lines = std::vector<std::string>;

/// The output of ranks, without their numbers' prefix: "0 tcp 10.77.0.1".
Lines listeners_in(const std::string& output) {
  Lines found;
  std::istringstream stream{output};
  for (std::string line; std::getline(stream, line);)
    if (const auto at = line.find(" listens: "); at != line.npos)
      found.push_back(line.substr(line.rfind(' ', at - 1) + 1, 1) + " " +
                      line.substr(at + std::string{" listens: "}.size()));
  return found;
}

/// A rank on each of two hosts, which meet at rank 0.
CommandResult over_two_hosts(const std::string& settings) {
  return beside_hosts(2, fmt::format("export MASTER_ADDR=${{v4[0]}} {}\n"
                                     "program='{} listens'\n"
                                     "by_hand 0 1\n",
                                     settings, WORKER_PROGRAM));
}

#define REQUIRE_BED(result) \
  if ((result).status == 77) GTEST_SKIP() << (result).output

TEST(Listening, RanksOfOneHostListenOnNothing) {
  const auto launched =
      run_command({CAPSTAN_PROGRAM, "run", "-n", "3", "--", WORKER_PROGRAM, "listens"});
  EXPECT_EQ(launched.status, 0) << launched.output;
  EXPECT_THAT(listeners_in(launched.output), IsEmpty());
}

/// Rank 0 has served the store at which they met.
TEST(Listening, NotEvenTheOneThatTheyMetAt) {
  const auto result = beside_hosts(1, fmt::format("export MASTER_ADDR=${{v4[0]}}\n"
                                                  "program='{} listens'\n"
                                                  "by_hand 0 0 0\n",
                                                  WORKER_PROGRAM));
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(listeners_in(result.output), IsEmpty());
}

TEST(Listening, OverTcpOnEachAddressOfTheirs) {
  const auto result = over_two_hosts("CAPSTAN_NETWORK=tcp");
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(
      listeners_in(result.output),
      UnorderedElementsAre("0 tcp 127.0.0.1", "0 tcp6 ::1", "0 tcp 10.77.0.1", "0 tcp6 fd77::1",
                           "1 tcp 127.0.0.1", "1 tcp6 ::1", "1 tcp 10.77.0.2", "1 tcp6 fd77::2"));
}

TEST(Listening, OverTcpOnTheInterfaceThatIsSet) {
  const auto result = over_two_hosts("CAPSTAN_NETWORK=tcp CAPSTAN_INTERFACE=10.77.0.0/24");
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(listeners_in(result.output),
              UnorderedElementsAre("0 tcp 10.77.0.1", "1 tcp 10.77.0.2"));
}

/// libfabric's own, and the post at which the end of the process can be seen.
TEST(Listening, OverLibfabricForTheProviderAndForThoseWhoWatch) {
  if (!ofi_report().available) GTEST_SKIP() << ofi_report().reason;
  const auto result = over_two_hosts("CAPSTAN_NETWORK=ofi CAPSTAN_PROVIDER=tcp");
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(listeners_in(result.output),
              UnorderedElementsAre("0 tcp 10.77.0.1", "0 tcp6 ::", "1 tcp 10.77.0.2", "1 tcp6 ::"));
}

}  // namespace
}  // namespace capstan
