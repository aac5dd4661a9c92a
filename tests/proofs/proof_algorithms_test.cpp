// SPDX-License-Identifier: Apache-2.0

// Every registered algorithm is proven: as a schedule and as the programs that it is lowered to.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/schedule/lowering/plan.hpp"
#include "core/schedule/lowering/prove_algorithm.hpp"
#include "core/schedule/lowering/verify.hpp"
#include "core/schedule/proof/prove.hpp"
#include "tests/proofs/builds.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using namespace proof;  // NOLINT: the subject of this file

std::string messages(const Result& result) {
  std::string text;
  for (const auto& finding : result.findings) text += finding.message + "\n";
  return text;
}

std::string to_string(const Shape& shape) {
  std::string text = std::to_string(shape.count.value()) + " elements, root " +
                     std::to_string(shape.root) + ", counts";
  for (const Elements count : shape.counts) (text += ' ') += std::to_string(count.value());
  return text;
}

/// One algorithm, for all numbers of ranks.
class Proof : public ::testing::TestWithParam<const Algorithm*> {};

/// Up to 17, then 32 and 64.
std::vector<int> rank_counts(int least, int most) {
  if (sanitized) most = std::min(most, 5);
  std::vector<int> counts;
  for (int ranks = least; ranks <= std::min(most, 17); ++ranks) counts.push_back(ranks);
  for (const int ranks : {32, 64})
    if (ranks <= most) counts.push_back(ranks);
  return counts;
}

/// Tests of more, for `scripts/test --all`, take ten times as long.
constexpr int few = 9;

void prove_all_schedules(const Algorithm* algorithm, const Hosts& hosts) {
  const int ranks = hosts.ranks();
  for (const Shape& shape : awkward_shapes(algorithm->collective, ranks))
    for (const bool in_place : {false, true}) {
      const auto schedules = schedules_of(*algorithm, hosts, shape);
      auto options = proof_options(*algorithm, in_place);
      options.calls = ranks > 17 ? 3 : 4;
      const auto result = prove_schedules(algorithm->collective, shape, schedules, options);
      ASSERT_TRUE(result.ok()) << full_name(*algorithm) << ", " << ranks << " ranks, "
                               << to_string(shape) << "\n"
                               << messages(result);
    }
}

void prove_long_calls(const Algorithm* algorithm, const Hosts& hosts) {
  const auto proof =
      prove_streams(*algorithm, hosts, ProvenStreams::of(algorithm->collective, hosts.ranks()));
  EXPECT_THAT(proof.texts(), ::testing::IsEmpty());
}

/// Every rank alone, pairs of neighbours, two hosts by turns, and the last rank apart.
std::vector<Hosts> hosts_of(int ranks) {
  std::vector<int> alone, pairs, turns, last_apart;
  for (int rank = 0; rank < ranks; ++rank) {
    alone.push_back(rank);
    pairs.push_back(rank / 2);
    turns.push_back(rank % 2);
    last_apart.push_back(rank + 1 == ranks);
  }
  return {Hosts{alone}, Hosts{pairs}, Hosts{turns}, Hosts{last_apart}};
}

void prove_lowered(const Algorithm* algorithm, const Hosts& hosts) {
  const int ranks = hosts.ranks();
  for (const Protocol protocol : protocols_of(*algorithm, hosts))
    for (const Shape& shape : awkward_shapes(algorithm->collective, ranks)) {
      const LoweredCall call{algorithm, protocol, shape};
      const auto result = prove_programs({call, call, call, call, call}, hosts,
                                         {.in_place = may_be_in_place(*algorithm, protocol)});
      ASSERT_TRUE(result.ok()) << full_name(*algorithm) << ' ' << name_of(protocol) << ", " << ranks
                               << " ranks, " << to_string(shape) << "\n"
                               << messages(result);
    }
}

Protocol random_protocol(const Algorithm& algorithm, const Hosts& hosts, std::mt19937& random) {
  const auto protocols = protocols_of(algorithm, hosts);
  const Protocol protocol = protocols[random() % protocols.size()];
  return in_packets(protocol) ? Protocol::staged : protocol;  // packets have no streams
}

/// A call cut into blocks of `length`.
LoweredCall stream_of(const Algorithm& algorithm, const Shape& shape, int length,
                      Protocol protocol = Protocol::staged) {
  return {&algorithm, protocol, shape, Elements{static_cast<std::uint64_t>(length)}};
}

TEST_P(Proof, Schedules) {
  for (const int ranks : rank_counts(1, few)) prove_all_schedules(GetParam(), ranks);
}
TEST_P(Proof, SchedulesOfManyRanks) {
  for (const int ranks : rank_counts(few + 1, 64)) prove_all_schedules(GetParam(), ranks);
}
TEST_P(Proof, LongCalls) {
  for (const int ranks : rank_counts(1, few)) prove_long_calls(GetParam(), ranks);
}
TEST_P(Proof, LongCallsOfManyRanks) {
  for (const int ranks : rank_counts(few + 1, 17)) prove_long_calls(GetParam(), ranks);
}
TEST_P(Proof, LoweredPrograms) {
  for (const int ranks : rank_counts(1, few)) prove_lowered(GetParam(), ranks);
}
TEST_P(Proof, LoweredProgramsOfManyRanks) {
  for (const int ranks : rank_counts(few + 1, 64)) prove_lowered(GetParam(), ranks);
}

/// There are four ways to spread ranks over hosts: fewer are tried, under a sanitizer fewest.
constexpr int few_across_hosts = sanitized ? 3 : 5, most_across_hosts = sanitized ? 3 : 9;

template <class Prove>
void across_hosts(int least, int most, Prove prove) {
  for (const int ranks : rank_counts(least, most))
    for (const Hosts& hosts : hosts_of(ranks)) prove(hosts);
}

/// Hierarchical algorithms have another schedule for each map of hosts.
class HierarchicalProof : public Proof {};
TEST_P(HierarchicalProof, SchedulesAcrossHosts) {
  across_hosts(1, most_across_hosts,
               [](const Hosts& hosts) { prove_all_schedules(GetParam(), hosts); });
}
TEST_P(Proof, LoweredProgramsAcrossHosts) {
  across_hosts(1, few_across_hosts, [](const Hosts& hosts) { prove_lowered(GetParam(), hosts); });
}
TEST_P(Proof, LoweredProgramsOfManyRanksAcrossHosts) {
  across_hosts(few_across_hosts + 1, most_across_hosts,
               [](const Hosts& hosts) { prove_lowered(GetParam(), hosts); });
}
TEST_P(Proof, LongCallsAcrossHosts) {
  across_hosts(1, few_across_hosts,
               [](const Hosts& hosts) { prove_long_calls(GetParam(), hosts); });
}
TEST_P(Proof, LongCallsOfManyRanksAcrossHosts) {
  across_hosts(few_across_hosts + 1, most_across_hosts,
               [](const Hosts& hosts) { prove_long_calls(GetParam(), hosts); });
}

INSTANTIATE_TEST_SUITE_P(All, Proof, ::testing::ValuesIn(every_algorithm()),
                         [](const auto& test) { return full_name(*test.param); });

std::vector<const Algorithm*> hierarchical_algorithms() {
  auto algorithms = every_algorithm();
  std::erase_if(algorithms,
                [](const Algorithm* a) { return a->requirement == Requires::anywhere; });
  return algorithms;
}
INSTANTIATE_TEST_SUITE_P(All, HierarchicalProof, ::testing::ValuesIn(hierarchical_algorithms()),
                         [](const auto& test) { return full_name(*test.param); });

std::size_t blocks_of(const LoweredCall& call) {
  return block_shapes({.collective = call.algorithm->collective, .shape = call.shape}, call.block)
      .size();
}

/// Any algorithm of any collective may follow any other on the same staging buffers.
TEST(MixedCalls, AnyAlgorithmMayFollowAnyOther) {
  std::mt19937 random{2024};
  const auto known = every_algorithm();
  for (int round = 0; round < (sanitized ? 40 : 150); ++round) {
    const int ranks = 2 + static_cast<int>(random() % 7);
    std::vector<int> places;
    const int places_in_use = 1 + static_cast<int>(random() % 2) * static_cast<int>(random() % 5);
    for (int rank = 0; rank < ranks; ++rank)
      places.push_back(static_cast<int>(random()) % places_in_use);
    const Hosts hosts{places};
    std::vector<LoweredCall> calls;
    bool apart = false;
    for (int i = 0; i < 10; ++i) {
      const Algorithm& algorithm = *known[random() % known.size()];
      const int root = has_root(algorithm.collective) ? static_cast<int>(random() % ranks) : 0;
      const Shape shape =
          stream_shape(algorithm.collective, ranks, 1 + static_cast<int>(random() % 9), root);
      calls.push_back(stream_of(algorithm, shape, 1 + static_cast<int>(random() % 9),
                                random_protocol(algorithm, hosts, random)));
      apart = apart || !may_be_in_place(algorithm, calls.back().protocol);
      const Protocol packets =
          random() % 2 == 0 ? Protocol::inline_packets : Protocol::shared_inline_packets;
      if (blocks_of(calls.back()) == 1 && random() % 2 == 0 && runs_in(algorithm, packets, hosts))
        calls.back().protocol = packets;
    }
    const auto result = prove_programs(calls, hosts, {.in_place = !apart && random() % 2 == 0});
    ASSERT_TRUE(result.ok()) << "round " << round << "\n" << messages(result);
  }
}

/// An algorithm sees the world through its group: any list of ranks will do.
TEST(Groups, AlgorithmsRunOnAnyGroup) {
  for (const Algorithm* algorithm : every_algorithm()) {
    const std::vector<Rank> members{Rank{9}, Rank{2}, Rank{5}, Rank{7}, Rank{0}};
    for (const Rank self : members) {
      const auto schedule =
          algorithm->schedule(Group{members, self}, stream_shape(algorithm->collective, 5, 11, 0));
      EXPECT_EQ(schedule.self(), self);
      for (const Step& step : schedule.steps())
        if (step.verb == Verb::put || step.verb == Verb::signal || step.verb == Verb::wait) {
          EXPECT_NE(std::ranges::find(members, step.peer), members.end()) << algorithm->name;
        }
    }
  }
}

}  // namespace
}  // namespace capstan
