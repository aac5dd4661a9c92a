// SPDX-License-Identifier: Apache-2.0

// Declared costs, by which calls among many ranks are chosen, against the schedules themselves.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "algorithms/registry.hpp"
#include "capstan/by_rank.hpp"

namespace capstan {
namespace {

Hosts hosts_for(const Algorithm& algorithm, int ranks) {
  if (algorithm.requirement == Requires::anywhere) return ranks;
  std::vector<int> host_of;
  for (int rank = 0; rank < ranks; ++rank) host_of.push_back(2 * rank / ranks);
  return Hosts{std::move(host_of)};
}

/// Elements of the rank that sends most, and of the one that sends or receives most.
struct Moved {
  double sent, either;
};
Moved moved_by(const Algorithm& algorithm, const Hosts& hosts, Elements count) {
  ByRank<double> sent(hosts.ranks()), received(hosts.ranks());
  for (const Rank rank : all_ranks(hosts.ranks())) {
    const Schedule schedule = algorithm.schedule(Group::world(hosts, rank), {.count = count});
    for (const Step& step : schedule.steps()) {
      if (step.verb != Verb::put) continue;
      sent[rank] += static_cast<double>(step.destination.length.value());
      received[step.peer] += static_cast<double>(step.destination.length.value());
    }
  }
  const double most = std::ranges::max(sent);
  return {most, std::max(most, std::ranges::max(received))};
}

TEST(DeclaredCosts, AreAboutThoseOfTheSchedules) {
  constexpr Elements count{1024};
  int compared = 0;
  for (const Collective collective : all_collectives()) {
    if (has_counts(collective) || collective == Collective::barrier) continue;
    for (const Algorithm& algorithm : algorithms(collective))
      for (const int ranks : {4, 16, 32}) {
        const Hosts hosts = hosts_for(algorithm, ranks);
        if (ranks > algorithm.max_ranks || !algorithm.suits(hosts)) continue;
        const Cost cost = algorithm.cost(hosts, count);
        const Moved moved = moved_by(algorithm, hosts, count);
        EXPECT_GE(cost.sent, 0.4 * moved.sent) << name_of(collective) << " " << algorithm.name;
        EXPECT_LE(cost.sent, 2.1 * moved.either) << name_of(collective) << " " << algorithm.name;
        EXPECT_GE(cost.steps, 1) << name_of(collective) << " " << algorithm.name;
        EXPECT_LE(cost.steps, 2.0 * ranks) << name_of(collective) << " " << algorithm.name;
        ++compared;
      }
  }
  EXPECT_GT(compared, 100);
}

/// The work of the busiest rank: messages to and from other hosts, their data, and reductions.
struct Work {
  double messages = 0, elements = 0, reduced = 0;
};
Work work_of(const Algorithm& algorithm, const Hosts& hosts, Elements count) {
  ByRank<Work> sent(hosts.ranks()), received(hosts.ranks());
  for (const Rank rank : all_ranks(hosts.ranks())) {
    const Schedule schedule = algorithm.schedule(Group::world(hosts, rank), {.count = count});
    for (const Step& step : schedule.steps()) {
      const auto elements = static_cast<double>(step.destination.length.value());
      if (step.verb == Verb::reduce) sent[rank].reduced += elements * step.source_count;
      if (step.verb != Verb::put && step.verb != Verb::signal) continue;
      if (hosts.together(rank, step.peer)) continue;
      for (Work* const each : {&sent[rank], &received[step.peer]})
        step.verb == Verb::put ? each->elements += elements : ++each->messages;
    }
  }
  Work most;
  for (const Rank rank : all_ranks(hosts.ranks()))
    for (const Work& each : {sent[rank], received[rank]})
      most = {std::max(most.messages, each.messages), std::max(most.elements, each.elements),
              std::max(most.reduced, each.reduced)};
  return most;
}

Hosts hosts_of(int count, int ranks_each) {
  std::vector<int> host_of;
  for (int rank = 0; rank < count * ranks_each; ++rank) host_of.push_back(rank / ranks_each);
  return Hosts{std::move(host_of)};
}

/// As Predictor takes them: what is not declared is the number of steps, or all that is sent.
TEST(DeclaredCosts, CountWhatCrossesTheNetworkAndWhatIsCombined) {
  constexpr Elements count{1 << 14};
  int compared = 0;
  for (const Collective collective : all_collectives()) {
    if (has_counts(collective)) continue;
    for (const Algorithm& algorithm : algorithms(collective))
      for (const Hosts& hosts :
           {hosts_of(32, 1), hosts_of(2, 32), hosts_of(16, 4), hosts_of(64, 2)}) {
        if (hosts.ranks() > algorithm.max_ranks || !algorithm.suits(hosts)) continue;
        const Cost cost = algorithm.cost(hosts, count);
        const Work work = work_of(algorithm, hosts, count);
        const double crossing = cost.crossing > 0 ? cost.crossing : cost.sent;
        const std::string name =
            fmt::format("{} {} on {} hosts: ", name_of(collective), algorithm.name, hosts.count());
        EXPECT_GE(std::max(cost.messages, cost.steps), 0.5 * work.messages) << name;
        EXPECT_LE(cost.messages, 1.2 * work.messages) << name;
        EXPECT_GE(crossing, 0.4 * work.elements) << name;
        if (cost.crossing > 0) {
          EXPECT_LE(cost.crossing, 1.5 * work.elements) << name;
        }
        EXPECT_GE(cost.reduced, 0.4 * work.reduced) << name;
        EXPECT_LE(cost.reduced, 2.5 * work.reduced) << name;
        ++compared;
      }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace capstan
