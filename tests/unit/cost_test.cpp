// SPDX-License-Identifier: Apache-2.0

// Counted costs, by which calls among many ranks are chosen, against a plainer count of schedules.

#include "core/schedule/selection/cost.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "algorithms/registry.hpp"
#include "capstan/by_rank.hpp"

namespace capstan {
namespace {

constexpr std::size_t most = 1 << 15;

Hosts hosts_of(int count, int ranks_each) {
  std::vector<int> host_of;
  for (int rank = 0; rank < count * ranks_each; ++rank) host_of.push_back(rank / ranks_each);
  return Hosts{std::move(host_of)};
}

Shape shape_of(Collective collective, Elements count, int ranks) {
  const int counts = collective == Collective::all_to_all_v ? ranks * ranks : ranks;
  if (has_counts(collective))
    return {.counts = std::vector(static_cast<std::size_t>(counts), count)};
  return {.count = count};
}

template <class Check>
void for_each_algorithm(const Hosts& hosts, Check check) {
  for (const Collective collective : all_collectives())
    for (const Algorithm& algorithm : algorithms(collective)) {
      if (hosts.ranks() > algorithm.max_ranks || !algorithm.suits(hosts)) continue;
      SCOPED_TRACE(fmt::format("{} {} on {} ranks of {} hosts", name_of(collective), algorithm.name,
                               hosts.ranks(), hosts.count()));
      check(algorithm, shape_of(collective, Elements{256}, hosts.ranks()));
    }
}

/// The work of the busiest rank.
struct Work {
  double messages = 0, far_messages = 0, sent = 0, far_sent = 0, reduced = 0;
};
Work work_of(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape) {
  ByRank<Work> out(hosts.ranks()), in(hosts.ranks());
  for (const Rank rank : all_ranks(hosts.ranks())) {
    const Schedule schedule = algorithm.schedule(Group::world(hosts, rank), shape);
    for (const Step& step : schedule.steps()) {
      const auto elements = static_cast<double>(step.destination.length.value());
      if (step.verb == Verb::reduce) out[rank].reduced += elements * step.source_count;
      if (step.verb != Verb::put && step.verb != Verb::signal) continue;
      const bool far = !hosts.together(rank, step.peer);
      for (Work* const each : {&out[rank], &in[step.peer]}) {
        (step.verb == Verb::put ? each->sent : each->messages) +=
            step.verb == Verb::put ? elements : 1;
        if (far)
          (step.verb == Verb::put ? each->far_sent : each->far_messages) +=
              step.verb == Verb::put ? elements : 1;
      }
    }
  }
  Work most;
  for (const Rank rank : all_ranks(hosts.ranks())) {
    const Work &o = out[rank], &i = in[rank];
    most = {std::max({most.messages, o.messages, i.messages}),
            std::max({most.far_messages, o.far_messages, i.far_messages}),
            std::max({most.sent, o.sent, i.sent - o.reduced}),
            std::max({most.far_sent, o.far_sent, i.far_sent}), std::max(most.reduced, o.reduced)};
  }
  return most;
}

TEST(Costs, AreCountedInTheSchedules) {
  for (const Hosts& hosts : {Hosts{2}, Hosts{5}, Hosts{16}, hosts_of(5, 1), hosts_of(2, 8),
                             hosts_of(4, 3), hosts_of(16, 2)})
    for_each_algorithm(hosts, [&](const Algorithm& algorithm, const Shape& shape) {
      const Cost cost = cost_of(algorithm, hosts, shape, most);
      const Work work = work_of(algorithm, hosts, shape);
      // Ranks that do the same are counted with blocks that are equally long.
      const double near = algorithm.symmetry == Symmetry::none ? 1e-9 : 0.1;
      EXPECT_DOUBLE_EQ(cost.messages, work.messages);
      EXPECT_DOUBLE_EQ(cost.far_messages, work.far_messages);
      EXPECT_NEAR(cost.sent, work.sent, near * work.sent + 1e-9);
      EXPECT_NEAR(cost.far_sent, work.far_sent, near * work.far_sent + 1e-9);
      EXPECT_NEAR(cost.reduced, work.reduced, near * work.reduced + 1e-9);
      EXPECT_GE(cost.steps, 1);
      EXPECT_LE(cost.far_steps, cost.steps);
      EXPECT_EQ(cost.far_steps > 0, !hosts.single());
    });
}

TEST(Costs, OfOneRankStandForAllThatDoTheSame) {
  for (const Hosts& hosts : {Hosts{2}, Hosts{8}, Hosts{16}, hosts_of(8, 1), hosts_of(4, 4)})
    for_each_algorithm(hosts, [&](const Algorithm& algorithm, const Shape& shape) {
      if (algorithm.symmetry == Symmetry::none) return;
      Algorithm one_by_one = algorithm;
      one_by_one.symmetry = Symmetry::none;
      const Cost cost = cost_of(algorithm, hosts, shape, most),
                 exact = cost_of(one_by_one, hosts, shape, most);
      EXPECT_DOUBLE_EQ(cost.steps, exact.steps);
      EXPECT_DOUBLE_EQ(cost.messages, exact.messages);
      EXPECT_DOUBLE_EQ(cost.sent, exact.sent);
      EXPECT_DOUBLE_EQ(cost.far_messages, exact.far_messages);
      EXPECT_DOUBLE_EQ(cost.reduced, exact.reduced);
    });
}

TEST(Costs, CountTheMessagesThatFollowOneAnother) {
  const auto steps = [](Collective collective, std::string_view name, const Hosts& hosts) {
    return cost_of(algorithm_named(collective, name), hosts,
                   shape_of(collective, Elements{1024}, hosts.ranks()), most)
        .steps;
  };
  EXPECT_EQ(steps(Collective::all_reduce, "flat", 16), 1);
  EXPECT_EQ(steps(Collective::all_reduce, "direct", 16), 2);
  EXPECT_EQ(steps(Collective::all_reduce, "recursive_doubling", 16), 4);
  EXPECT_EQ(steps(Collective::all_reduce, "ring", 16), 30);
  EXPECT_EQ(steps(Collective::broadcast, "chain", 16), 15);
  EXPECT_EQ(steps(Collective::barrier, "dissemination", 33), 6);
  // There are so many steps that only some ranks are counted.
  EXPECT_EQ(steps(Collective::all_reduce, "flat", 256), 1);
  EXPECT_EQ(steps(Collective::all_reduce, "direct", 256), 2);
  EXPECT_EQ(steps(Collective::all_to_all, "pairwise", 256), 255);
}

TEST(Costs, OfLongSchedulesAreCountedOnSomeRanks) {
  for (const Hosts& hosts : {Hosts{16}, hosts_of(4, 4)})
    for_each_algorithm(hosts, [&](const Algorithm& algorithm, const Shape& shape) {
      const Cost some = cost_of(algorithm, hosts, shape, 1 << 8);
      const Cost all = cost_of(algorithm, hosts, shape, most);
      EXPECT_LE(some.steps, 2 * all.steps);
      EXPECT_GE(some.steps, 0.375 * all.steps);  // of sums that go from host to host and back
      EXPECT_LE(some.messages, all.messages);
      EXPECT_GE(some.messages, 0.4 * all.messages);
      EXPECT_LE(some.reduced, all.reduced);
      EXPECT_GE(some.reduced, 0.4 * all.reduced);
    });
}

/// The last rank of a pipeline waits until the first block has passed all others.
TEST(Costs, CountWhatCrossesBetweenHostsOneAfterTheOther) {
  const Hosts hosts = hosts_of(8, 1);
  const Shape shape{.count = Elements{1000}};
  const Cost chain = cost_of(algorithm_named(Collective::broadcast, "chain"), hosts, shape, most);
  EXPECT_EQ(chain.far_sent, 1000);
  EXPECT_EQ(chain.far_chain, 7000);
}

}  // namespace
}  // namespace capstan
