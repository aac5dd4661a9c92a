// SPDX-License-Identifier: Apache-2.0

// Communicators over several hosts, which are network namespaces: all collectives are right, and
// whatever goes wrong is told to every rank that is left.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

#include "tests/processes/processes.hpp"
#include "tests/processes/testbed.hpp"
#include "tests/sanitizers.hpp"
#include "transports/ofi/ofi_transport.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;

#define REQUIRE_BED(result) \
  if ((result).status == 77) GTEST_SKIP() << (result).output

struct Net {
  const char* name;
  const char* network;
};

class Network : public ::testing::TestWithParam<Net> {
 protected:
  void SetUp() override {
    if (std::string{GetParam().network} == "ofi" && !ofi_report().available)
      GTEST_SKIP() << ofi_report().reason;
  }

  void TearDown() override { EXPECT_THAT(leftovers(), ::testing::IsEmpty()); }

  /// Runs the worker over hosts with so many ranks each; cores are free, as hosts share them. What
  /// hangs says where, before the launcher ends it.
  static CommandResult work(int hosts, int ranks_each, const std::string& what,
                            const std::string& settings = "", const std::string& meanwhile = "",
                            const std::vector<std::string>& options = {}) {
    std::string places;
    for (int host = 0; host < hosts; ++host)
      places += fmt::format("{}${{host[{}]}}:{}", host > 0 ? "," : "", host, ranks_each);
    return beside_hosts(
        hosts,
        fmt::format("export CAPSTAN_TIMEOUT=60 CAPSTAN_NETWORK={} {}\n"
                    "{}\n"
                    "launch {} --bind none --timeout 180 -- {} {}\n",
                    GetParam().network, settings, meanwhile, places, WORKER_PROGRAM, what),
        options);
  }

  /// The same with a rank on each host, and nobody who ends the others when one fails.
  static CommandResult by_hand(int hosts, const std::string& what, const std::string& settings = "",
                               const std::string& meanwhile = "") {
    std::string places;
    for (int host = 0; host < hosts; ++host) places += fmt::format(" {}", host);
    return beside_hosts(
        hosts, fmt::format("export CAPSTAN_NETWORK={} MASTER_ADDR=${{v4[0]}}\n"
                           "{}\n{}\n"
                           "program='timeout -s KILL 40 {} {}'\n"
                           "by_hand{}\n",
                           GetParam().network, settings, meanwhile, WORKER_PROGRAM, what, places));
  }

  /// On so many hosts, and ranks on each.
  static void every_collective_is_right(const std::vector<std::pair<int, int>>& beds) {
    for (const auto& [hosts, each] : beds) {
      const auto result = work(hosts, each, "delays");
      REQUIRE_BED(result);
      EXPECT_EQ(result.status, 0) << hosts << " hosts, " << each << " each: " << result.output;
    }
  }

  static void every_type_and_operation_is_right(const std::vector<std::string>& collectives) {
    for (const std::string& collective : collectives) {
      const auto result = work(2, 2, fmt::format("everything {}", collective));
      REQUIRE_BED(result);
      EXPECT_EQ(result.status, 0) << collective << ": " << result.output;
    }
  }
};

/// One is enough under a sanitizer: all that differs is the transport, which has tests
/// of its own.
const auto nets =
    sanitized ? std::vector<Net>{{"Tcp", "tcp"}} : std::vector<Net>{{"Tcp", "tcp"}, {"Ofi", "ofi"}};

INSTANTIATE_TEST_SUITE_P(All, Network, ::testing::ValuesIn(nets),
                         [](const auto& test) { return test.param.name; });

TEST_P(Network, EveryCollectiveIsRightOverTwoAndThreeHosts) {
  every_collective_is_right({{2, 2}, {3, 1}});
}
TEST_P(Network, EveryCollectiveIsRightOnOtherNumbersOfHosts) {
  if (sanitized) GTEST_SKIP() << "as on two and three hosts";
  every_collective_is_right({{2, 1}, {3, 2}, {4, 1}});
}
TEST_P(Network, EveryTypeAndOperationIsRight) {
  every_type_and_operation_is_right({"all_reduce"});
}
TEST_P(Network, EveryTypeIsRightOfOtherCollectives) {
  if (sanitized) GTEST_SKIP() << "as of all_reduce";
  every_type_and_operation_is_right({"broadcast", "all_to_all"});
}

TEST_P(Network, MessagesAndGroups) {
  for (const char* what : {"messages 500", "groups"}) {
    const auto result = work(2, 2, what);
    REQUIRE_BED(result);
    EXPECT_EQ(result.status, 0) << what << ": " << result.output;
  }
}

TEST_P(Network, WhatIsSentArrivesWhateverTheSenderDoesNext) {
  for (const int each : {1, 2}) {
    const auto result = work(2, each, "rest");
    REQUIRE_BED(result);
    EXPECT_EQ(result.status, 0) << each << " ranks each: " << result.output;
  }
}

TEST_P(Network, GoesByTheInterfaceThatIsNamed) {
  for (const char* named : {"CAPSTAN_INTERFACE=eth0", "CAPSTAN_INTERFACE=10.77.0.0/16"}) {
    const auto result = work(2, 1, "everything barrier", named);
    REQUIRE_BED(result);
    EXPECT_EQ(result.status, 0) << named << ": " << result.output;
  }
  const auto result = work(2, 1, "everything barrier", "CAPSTAN_INTERFACE=eth7");
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("eth7"));
}

TEST_P(Network, DomainsAreTakenAsNamed) {
  if (std::string{GetParam().network} != "ofi") GTEST_SKIP() << "domains are libfabric's";
  auto result = work(2, 2, "everything barrier", "CAPSTAN_RDMA_DEVICES=eth0,eth0");
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
  result = work(2, 1, "everything barrier", "CAPSTAN_RDMA_DEVICES=mlx5_7");
  EXPECT_NE(result.status, 0);
  EXPECT_THAT(result.output, HasSubstr("with domain \"mlx5_7\""));
}

TEST_P(Network, AKilledRankIsNamedOnEverySurvivor) {
  for (const char* count : {"10", "100000"}) {
    const auto result = by_hand(3, fmt::format("kill {}", count));
    REQUIRE_BED(result);
    EXPECT_EQ(occurrences(result.output, "PeerLost 1:"), 2) << count << ": " << result.output;
  }
}

TEST_P(Network, DifferentCountsAreNamed) {
  const auto result = work(3, 1, "mismatch 3000", "CAPSTAN_TIMEOUT=20");
  REQUIRE_BED(result);
  EXPECT_THAT(result.output, HasSubstr("Mismatch:"));
  EXPECT_THAT(result.output, HasSubstr("all_reduce(20 x f32, sum)"));
}

TEST_P(Network, AStoppedRankIsATimeOut) {
  const auto result = by_hand(3, "stop 100", "export CAPSTAN_TIMEOUT=2; stopped=1");
  REQUIRE_BED(result);
  EXPECT_EQ(occurrences(result.output, "TimedOut: rank 1 (host "), 2) << result.output;
}

/// The cable of a host is taken out in the middle of a loop.
TEST_P(Network, ACutCableIsToldOnBothSides) {
  const auto result =
      by_hand(3, "loop 100", "export CAPSTAN_TIMEOUT=3", "(sleep 3; $HOSTS cut ${host[1]}) &");
  REQUIRE_BED(result);
  EXPECT_EQ(occurrences(result.output, "TimedOut:") + occurrences(result.output, "PeerLost"), 3)
      << result.output;
}

/// The traffic that left over each of a host's two cards while `script` ran.
struct Sent {
  CommandResult result;
  double first = 0, second = 0;
};

Sent over_two_cards(const std::string& settings, const std::string& script) {
  const auto count = [](const char* name) {
    return fmt::format(
        "echo {}: $(on 0 cat /sys/class/net/eth0/statistics/tx_bytes) "
        "$(on 0 cat /sys/class/net/eth1/statistics/tx_bytes)\n",
        name);
  };
  Sent sent;
  sent.result = beside_hosts(
      2,
      fmt::format("export CAPSTAN_TIMEOUT=60 {}\n"
                  "job=\"launch ${{host[0]}}:1,${{host[1]}}:1 --bind none --timeout 100 --\"\n"
                  "{}{} || exit\n{}",
                  settings, count("sent before"), script, count("sent after")),
      {"--cards", "2"});
  const auto number_after = [&](const char* name, double& a, double& b) {
    const std::size_t at = sent.result.output.find(name);
    return at != std::string::npos &&
           std::sscanf(sent.result.output.c_str() + at + std::strlen(name), ": %lf %lf", &a, &b) ==
               2;
  };
  double first = 0, second = 0;
  if (number_after("sent before", first, second) &&
      number_after("sent after", sent.first, sent.second)) {
    sent.first -= first;
    sent.second -= second;
  }
  return sent;
}

TEST_P(Network, RailsShareLongDataOutOverTheCards) {
  const auto settings = fmt::format(
      "CAPSTAN_NETWORK={} CAPSTAN_RAILS=2 CAPSTAN_INTERFACE=eth0,eth1 {}", GetParam().network,
      std::string{GetParam().network} == "ofi" ? "CAPSTAN_RDMA_DEVICES=eth0,eth1" : "");
  const auto sent =
      over_two_cards(settings, "$job $CAPSTAN perf all_reduce -b 8 -e 16M -f 128 --seconds 0.05");
  REQUIRE_BED(sent.result);
  EXPECT_EQ(sent.result.status, 0) << sent.result.output;
  EXPECT_GT(sent.second, 0.7 * sent.first) << sent.result.output;
  EXPECT_GT(sent.second, 16e6) << sent.result.output;
  for (const std::string what : {"rest", "delays", "messages 200", "everything all_gather"}) {
    const auto result = over_two_cards(settings, fmt::format("$job {} {}", WORKER_PROGRAM, what));
    EXPECT_EQ(result.result.status, 0) << what << ": " << result.result.output;
  }
}

TEST_P(Network, OneCutCableOfTwoIsTold) {
  const auto sent =
      over_two_cards(fmt::format("CAPSTAN_NETWORK={} CAPSTAN_RAILS=2 CAPSTAN_INTERFACE=eth0,eth1 "
                                 "CAPSTAN_RDMA_DEVICES={} CAPSTAN_TIMEOUT=3",
                                 GetParam().network,
                                 std::string{GetParam().network} == "ofi" ? "eth0,eth1" : "''"),
                     fmt::format("(sleep 3; $HOSTS cut ${{host[1]}} eth1) & $job {} loop 1000000",
                                 WORKER_PROGRAM));
  REQUIRE_BED(sent.result);
  EXPECT_THAT(sent.result.output, ::testing::AnyOf(HasSubstr("TimedOut:"), HasSubstr("PeerLost")));
}

TEST_P(Network, LossOfPacketsChangesNothing) {
  const auto result = work(2, 1, "messages 200", "", "", {"--loss", "2%"});
  REQUIRE_BED(result);
  EXPECT_EQ(result.status, 0) << result.output;
}

}  // namespace
}  // namespace capstan
