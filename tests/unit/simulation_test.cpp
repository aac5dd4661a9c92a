// SPDX-License-Identifier: Apache-2.0

// Calls on modelled clusters: times against closed LogGP forms, one rank for many against all
// ranks, and physical bounds. fabric_test.cpp has the networks.

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>

#include "core/schedule/lowering/exports.hpp"
#include "core/schedule/lowering/plan.hpp"
#include "core/schedule/simulation/bound.hpp"
#include "core/schedule/simulation/forecast.hpp"

namespace capstan {
namespace {

Hosts hosts_of(int ranks, int each) {
  std::vector<int> host_of;
  for (int rank = 0; rank < ranks; ++rank) host_of.push_back(rank / each);
  return Hosts{std::move(host_of)};
}

Cluster cluster_of(int ranks, const std::string& fabric = "flat", int each = 1) {
  const Hosts hosts = hosts_of(ranks, each);
  return {.hosts = hosts, .fabric = make_fabric(parse_fabric(fabric), hosts.count(), each)};
}

ClusterCall call_of(Collective collective, std::string_view algorithm, std::uint64_t count) {
  ClusterCall call{.call = {.collective = collective, .shape = {.count = Elements{count}}},
                   .algorithm = &algorithm_named(collective, algorithm)};
  call.block = Elements{std::max<std::uint64_t>(count, 1)};
  return call;
}

Forecast all_reduce(std::string_view algorithm, std::uint64_t count, const Cluster& cluster,
                    bool every_rank = true) {
  ClusterCall call = call_of(Collective::all_reduce, algorithm, count);
  call.every_rank = every_rank;
  return forecast(call, cluster);
}

/// LogGP's time of a message of k bytes, o + kG + L + o, with the default network.
struct LogGp {
  RankCosts costs{};
  double latency = 600, byte = 0.04;

  double message(double bytes) const { return costs.send + bytes * byte + latency + costs.receive; }
  /// Combining two operands of so many bytes, or copying them.
  double sum(double bytes) const { return bytes * (3 * costs.copy_byte + 2 * costs.reduce_byte); }
  double copy(double bytes) const { return bytes * 2 * costs.copy_byte; }
};

// The closed forms know nothing of schedules: they are those of the literature. What arrives in
// another rank's staging buffer is copied to the output.
TEST(Simulation, OnAUniformNetworkTimesAreThoseOfLogGp) {
  const LogGp model;
  const double call = model.costs.call;
  for (const int p : {4, 16, 64})
    for (const std::uint64_t count : {std::uint64_t{64}, std::uint64_t{1} << 16}) {
      const Cluster cluster = cluster_of(p);
      const double bytes = 4.0 * static_cast<double>(count), rounds = std::log2(p);
      const double doubling = call + rounds * (model.message(bytes) + model.sum(bytes));
      EXPECT_NEAR(all_reduce("recursive_doubling", count, cluster).time / doubling, 1, 0.01);
      const double block = bytes / p;
      const double ring =
          call + (p - 1) * (2 * model.message(block) + model.sum(block) + model.copy(block));
      EXPECT_NEAR(all_reduce("ring", count, cluster).time / ring, 1, 0.01);
      double halving = call;
      for (double part = bytes / 2; part >= block; part /= 2)
        halving += 2 * model.message(part) + model.sum(part) + model.copy(part);
      EXPECT_NEAR(all_reduce("rabenseifner", count, cluster).time / halving, 1, 0.01);
    }
}

std::vector<const Algorithm*> symmetric_algorithms() {
  std::vector<const Algorithm*> found;
  for (const Collective collective : all_collectives())
    for (const Algorithm& algorithm : algorithms(collective))
      if (!has_counts(collective) && algorithm.symmetry != Symmetry::none)
        found.push_back(&algorithm);
  return found;
}

bool holds_for(Symmetry symmetry, int ranks) {
  return symmetry == Symmetry::rotation || std::has_single_bit(static_cast<unsigned>(ranks));
}

/// A step without the number of its peer and the places of its data.
struct Deed {
  Verb verb;
  int distance;
  Elements length;
  std::uint32_t sources;
  bool operator==(const Deed&) const = default;
};

std::vector<Deed> deeds_of(const Algorithm& algorithm, int ranks, int self) {
  const auto count = Elements{static_cast<std::uint64_t>(ranks) * 6};
  const Schedule schedule =
      algorithm.schedule(Group::world(hosts_of(ranks, 1), Rank{self}), {.count = count});
  std::vector<Deed> deeds;
  for (const Step& step : schedule.steps()) {
    const bool local = step.verb == Verb::copy || step.verb == Verb::reduce;
    const int peer = step.peer.value();
    const int distance = local ? 0
                         : algorithm.symmetry == Symmetry::exclusive_or
                             ? peer ^ self
                             : (peer - self + ranks) % ranks;
    deeds.push_back({step.verb, distance, step.destination.length, step.source_count});
  }
  return deeds;
}

/// The input of other collectives is copied to the output.
TEST(Simulation, ABroadcastIsInPlace) {
  for (const Collective collective : {Collective::broadcast, Collective::all_reduce}) {
    const Forecast alone = forecast(call_of(collective, "flat", 1000), cluster_of(1));
    EXPECT_EQ(alone.time > RankCosts{}.call, collective != Collective::broadcast) << alone.time;
  }
}

TEST(Simulation, RanksDoTheSameWhereAlgorithmsDeclareIt) {
  EXPECT_GE(symmetric_algorithms().size(), 8u);
  for (const Algorithm* algorithm : symmetric_algorithms())
    for (const int ranks : {2, 3, 4, 7, 8, 12, 16, 32}) {
      if (!holds_for(algorithm->symmetry, ranks)) continue;
      const auto first = deeds_of(*algorithm, ranks, 0);
      for (int rank = 1; rank < ranks; ++rank) {
        const auto other = deeds_of(*algorithm, ranks, rank);
        // Only the order of equal puts may differ: rank 0 counts from another block.
        EXPECT_TRUE(first == other) << name_of(algorithm->collective) << " " << algorithm->name
                                    << ", rank " << rank << " of " << ranks;
      }
    }
}

TEST(Simulation, OneRankForManyTakesTheTimeOfAll) {
  for (const Algorithm* algorithm : symmetric_algorithms())
    for (const int each : {1, 2, 4})
      for (const int ranks : {4, 8, 12, 16, 64}) {
        if (!holds_for(algorithm->symmetry, ranks) || ranks == each) continue;
        const Cluster cluster = cluster_of(ranks, "flat", each);
        ClusterCall call = call_of(algorithm->collective, algorithm->name,
                                   static_cast<std::uint64_t>(ranks) * 1000);
        const Forecast few = forecast(call, cluster);
        call.every_rank = true;
        const Forecast all = forecast(call, cluster);
        EXPECT_EQ(few.run.finished.size(), static_cast<std::size_t>(each));
        EXPECT_EQ(all.run.finished.size(), static_cast<std::size_t>(ranks));
        EXPECT_NEAR(few.time / all.time, 1, 1e-9)
            << name_of(algorithm->collective) << " " << algorithm->name << " " << each << " of "
            << ranks;
      }
}

TEST(Simulation, SplitsTheTimeOfTheSlowestRankWithoutARest) {
  for (const char* fabric : {"flat", "fat-tree:radix=4,oversubscription=2", "torus", "dragonfly"})
    for (const char* algorithm : {"ring", "binomial_tree", "double_binary_tree", "two_level"}) {
      const Forecast found = all_reduce(algorithm, 40'000, cluster_of(24, fabric, 2));
      const CriticalPath path = critical_path(found.run);
      EXPECT_NEAR(path.split.total(), found.run.time, 1e-6 * found.run.time);
      for (const double part : {path.split.overhead, path.split.work, path.split.transfer,
                                path.split.latency, path.split.queueing})
        EXPECT_GE(part, -1e-6) << fabric << " " << algorithm;
      for (std::size_t i = 1; i < path.hops.size(); ++i) {
        EXPECT_EQ(path.hops[i].from, path.hops[i - 1].to);
        EXPECT_LE(path.hops[i - 1].received, path.hops[i].sent);
      }
    }
}

/// In a ring every rank computes at the same time: without that, the call takes so much less.
TEST(Simulation, WorkIsWhatACallTakesLongerForIt) {
  Cluster cluster = cluster_of(8);
  const Forecast with = all_reduce("ring", 40'000, cluster);
  cluster.costs.copy_byte = cluster.costs.reduce_byte = 0;
  const Forecast without = all_reduce("ring", 40'000, cluster);
  EXPECT_GT(with.time, 1.1 * without.time);
  EXPECT_NEAR(critical_path(with.run).split.work, with.run.time - without.run.time,
              1e-6 * with.run.time);
}

/// The least time of a candidate decides whether it is simulated at all.
TEST(Simulation, NoCallTakesLessThanItsLeastTime) {
  for (const int each : {1, 4})
    for (const auto collective : {Collective::all_reduce, Collective::broadcast,
                                  Collective::all_gather, Collective::all_to_all})
      for (const Algorithm& algorithm : algorithms(collective)) {
        const Cluster cluster = cluster_of(16, "fat-tree", each);
        if (!algorithm.suits(cluster.hosts) || algorithm.max_ranks < 16) continue;
        for (const Protocol protocol : {Protocol::staged, Protocol::inline_packets})
          for (const std::uint64_t count : {16U, 4096U}) {
            ClusterCall call = call_of(collective, algorithm.name, count);
            call.protocol = protocol;
            call.block = Elements{1024};
            if (in_packets(protocol) &&
                !fits_packets(algorithm, protocol, cluster.hosts, call.call))
              continue;
            for (const auto& slower : {std::vector<double>{}, std::vector<double>(16, 0.5)}) {
              call.disturbance.slower = slower;
              const double least = least_time(call, cluster);
              EXPECT_GT(least, 0);
              EXPECT_LE(least, forecast(call, cluster).time * (1 + 1e-6))
                  << name_of(collective) << " " << algorithm.name << " " << count;
            }
          }
      }
  // Messages to other hosts count with what they take there.
  const Cluster hosts = cluster_of(64, "flat", 2);
  EXPECT_GE(least_time(call_of(Collective::all_reduce, "two_level", 4096), hosts),
            2 * 31 * (hosts.costs.send + hosts.costs.receive));
}

TEST(Simulation, LinksCarryWhatRanksSend) {
  const Forecast found = all_reduce("ring", 64 * 100, cluster_of(64, "fat-tree:radix=8"));
  const double each = 2 * 63 * 100 * 4;  // bytes that a rank sends
  double up = 0;
  for (const LinkLoad& load : found.run.loads) {
    if (load.link >= 64) continue;
    EXPECT_DOUBLE_EQ(load.bytes, each);
    up += load.bytes;
  }
  EXPECT_DOUBLE_EQ(up, 64 * each);
}

TEST(Simulation, NetworksThatAreSharedTakeLonger) {
  const auto time = [](const char* fabric) {
    ClusterCall call = call_of(Collective::all_to_all, "pairwise", 20'000);
    call.every_rank = true;
    return forecast(call, cluster_of(64, fabric)).time;
  };
  EXPECT_LT(time("flat"), time("fat-tree:radix=8"));
  EXPECT_LT(time("fat-tree:radix=8"), time("fat-tree:radix=8,oversubscription=4"));
  EXPECT_LT(time("torus:dims=4x4x4"), time("torus:dims=64"));
}

TEST(Simulation, ALateOrSlowRankDelaysAll) {
  const Cluster cluster = cluster_of(8);
  ClusterCall call = call_of(Collective::barrier, "dissemination", 0);
  call.every_rank = true;
  const double calm = forecast(call, cluster).time;
  call.disturbance.late.assign(8, 0);
  call.disturbance.late[3] = 50'000;
  const Forecast late = forecast(call, cluster);
  EXPECT_NEAR(late.time, 50'000 + calm, 1);
  EXPECT_NEAR(critical_path(late.run, call.disturbance).split.late, 50'000, 1);
  call.disturbance = {.late = {}, .slower = {1, 1, 1, 10, 1, 1, 1, 1}};
  EXPECT_GT(forecast(call, cluster).time, calm + 9 * cluster.costs.send);
}

TEST(Simulation, StreamsOfBlocksOverlapAndLongOnesAreContinued) {
  const Cluster cluster = cluster_of(8);
  ClusterCall call = call_of(Collective::broadcast, "chain", 1 << 20);
  const double whole = forecast(call, cluster).time;
  call.block = Elements{1 << 14};
  const Forecast stream = forecast(call, cluster);
  EXPECT_EQ(stream.blocks, 64u);
  EXPECT_LT(stream.time, 0.4 * whole) << "a pipeline";
  call.most_steps = 1000;
  const Forecast part = forecast(call, cluster);
  EXPECT_LT(part.simulated_blocks, 64u);
  EXPECT_NEAR(part.time / stream.time, 1, 0.02);
}

/// An event that happens once does not count as a part of every block.
TEST(Simulation, ThePartsOfATimeThatIsContinuedAddUpToIt) {
  const Cluster cluster = cluster_of(8);
  ClusterCall call = call_of(Collective::broadcast, "chain", 1 << 20);
  call.block = Elements{1 << 14};
  call.disturbance.late = {5e5, 0, 0, 0, 0, 0, 0, 0};
  const Forecast stream = forecast(call, cluster);
  call.most_steps = 1000;
  const Forecast part = forecast(call, cluster);
  ASSERT_LT(part.simulated_blocks, part.blocks);
  for (const Forecast* each : {&stream, &part})
    EXPECT_NEAR(each->split.total(), each->time, 1e-6 * each->time);
  EXPECT_NEAR(part.split.late, 5e5, 1);
  EXPECT_NEAR(part.split.transfer / stream.split.transfer, 1, 0.1);
}

// A rank plans by the staging buffers of a few ranks where there are many.
TEST(Simulation, BlocksOfManyRanksFitTheStagingBuffersOfAll) {
  for (const int ranks : {257, 300, 512, 1000})
    for (const Collective collective : all_collectives()) {
      if (has_counts(collective)) continue;
      for (const Algorithm& algorithm : algorithms(collective)) {
        if (algorithm.max_ranks < ranks || algorithm.requirement != Requires::anywhere) continue;
        const bool long_schedule = algorithm.max_ranks == 4096 || algorithm.name == "ring";
        if (long_schedule && ranks != 300) continue;
        const int root = has_root(collective) ? 77 : 0;
        const Call call{.collective = collective,
                        .shape = {.count = Elements{200'000}, .root = root}};
        const SlotLayout layout{ranks, Bytes{600'000}};
        const Choice choice{.algorithm = &algorithm, .protocol = Protocol::staged};
        const Elements block = block_length(call, choice, ranks, {.block = Bytes{1 << 20}}, layout);
        if (block <= Elements{1}) continue;  // nothing fits
        Shape shape = call.shape;
        shape.count = std::min(shape.count, block);
        for (const Rank rank : all_ranks(ranks)) {
          const Schedule schedule = algorithm.schedule(Group::world(ranks, rank), shape);
          const Bytes staged = bytes_of(staging_extent(schedule, Protocol::staged), Bytes{4});
          ASSERT_LE(staged, layout.region(SlotKind::staging))
              << name_of(collective) << " " << algorithm.name << ", rank " << rank.value() << " of "
              << ranks;
        }
      }
    }
}

/// Networks of 24 hosts, with one rank for each or three.
std::vector<Cluster> some_clusters() {
  std::vector<Cluster> clusters;
  for (const char* fabric : {"flat", "fat-tree:radix=8,oversubscription=2", "fat-tree:radix=4",
                             "dragonfly:routers=3,hosts=2", "torus:dims=4x6", "torus:dims=8x3"})
    for (const int each : {1, 3}) clusters.push_back(cluster_of(24 * each, fabric, each));
  const Hosts hosts = hosts_of(24, 4);
  clusters.push_back({.hosts = hosts, .fabric = make_fabric(parse_fabric("rail"), 24, 4)});
  clusters.back().port_per_rank = true;
  clusters.push_back(cluster_of(4, "flat", 4));
  return clusters;
}

TEST(PhysicalBound, NoAlgorithmBeatsIt) {
  using enum Collective;
  int compared = 0;
  for (const Cluster& cluster : some_clusters())
    for (const Collective collective : {all_reduce, broadcast, reduce, all_gather, reduce_scatter,
                                        all_to_all, gather, scatter, scan})
      for (const Algorithm& algorithm : algorithms(collective)) {
        const int ranks = cluster.hosts.ranks();
        if (algorithm.source || ranks > algorithm.max_ranks || !algorithm.suits(cluster.hosts))
          continue;
        const ClusterCall call = call_of(collective, algorithm.name, 3000);
        const PhysicalBound bound = physical_bound(call.call, cluster);
        EXPECT_GE(forecast(call, cluster).time, bound.time * (1 - 1e-9))
            << name_of(collective) << " by " << algorithm.name << " on " << ranks << " ranks, "
            << cluster.fabric->description() << ", limited by " << bound.limited_by;
        ++compared;
      }
  EXPECT_GT(compared, 300);
}

/// On a network where only ports matter a ring reaches the bound, but for latency.
TEST(PhysicalBound, IsReachedByARing) {
  Cluster cluster = cluster_of(16);
  cluster.costs = {.call = 0, .send = 0, .receive = 0, .copy_byte = 0, .reduce_byte = 0};
  const ClusterCall call = call_of(Collective::all_reduce, "ring", 64 << 20);
  const PhysicalBound bound = physical_bound(call.call, cluster);
  EXPECT_EQ(bound.limited_by, "port");
  EXPECT_NEAR(forecast(call, cluster).time / bound.time, 1, 0.01);
}

TEST(PhysicalBound, NamesTheNarrowestCut) {
  const auto limit = [](Collective collective, const std::string& fabric) {
    return physical_bound({.collective = collective, .shape = {.count = Elements{1 << 20}}},
                          cluster_of(64, fabric))
        .limited_by;
  };
  using enum Collective;
  EXPECT_EQ(limit(all_reduce, "fat-tree:radix=16"), "port");
  EXPECT_EQ(limit(all_to_all, "fat-tree:radix=16,oversubscription=4"), "leaf switch");
  EXPECT_EQ(limit(all_to_all, "dragonfly:routers=4,hosts=4"), "group");
  EXPECT_EQ(limit(all_to_all, "torus:dims=2x32"), "half of the torus");
  EXPECT_EQ(limit(barrier, "flat"), "");
}

TEST(PhysicalBound, TellsWhetherRanksOfAHostShareAPort) {
  for (const int each : {1, 2})
    for (const bool port_per_rank : {false, true}) {
      Cluster cluster = cluster_of(8, "flat", each);
      cluster.port_per_rank = port_per_rank;
      const ClusterCall call = call_of(Collective::all_to_all, "direct", 8 << 20);
      EXPECT_EQ(physical_bound(call.call, cluster).limited_by,
                each > 1 && port_per_rank ? "host's ports" : "port");
    }
}

}  // namespace
}  // namespace capstan
