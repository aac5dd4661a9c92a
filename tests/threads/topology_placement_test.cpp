// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <thread>

#include "capstan/error.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// 2 packages x 2 NUMA nodes x 4 cores x 2 hardware threads: 16 cores, units 0-31.
Machine two_packages() {
  return Machine::from_synthetic("package:2 numa:2 l3:1(size=32MiB) l2:4(size=1MiB) core:1 pu:2");
}

std::vector<std::string> texts(const std::vector<CpuSet>& sets) {
  std::vector<std::string> all;
  for (const CpuSet& set : sets) all.push_back(to_string(set));
  return all;
}

/// Runs `body` on a thread of its own, whose binding ends with it.
template <class Body>
void on_own_thread(Body body) {
  std::thread{body}.join();
}

TEST(PlaceRanks, SpreadsOverPackagesAndNumaNodesKeepingNeighboursNear) {
  EXPECT_THAT(texts(place_ranks(two_packages(), 2)), ElementsAre("0-1", "16-17"));
  EXPECT_THAT(texts(place_ranks(two_packages(), 4)), ElementsAre("0-1", "8-9", "16-17", "24-25"));
  EXPECT_THAT(texts(place_ranks(two_packages(), 7)),
              ElementsAre("0-1", "2-3", "8-9", "10-11", "16-17", "18-19", "24-25"));
}

TEST(PlaceRanks, SpreadsOverSharedL2) {
  const Machine clusters = Machine::from_synthetic("package:1 l3:1 l2:2 core:4 pu:1");
  EXPECT_THAT(texts(place_ranks(clusters, 2)), ElementsAre("0", "4"));
  EXPECT_THAT(texts(place_ranks(clusters, 5)), ElementsAre("0", "1", "2", "4", "5"));
}

TEST(PlaceRanks, FillsUnequalPartsAsEvenlyAsTheyAllow) {
  std::vector<Core> cores;
  for (const unsigned unit : {0U, 1U, 2U, 3U, 4U})
    cores.push_back({.index = static_cast<int>(unit),
                     .package = unit == 0 ? 0 : 1,
                     .processing_units = CpuSet{{unit}}});
  const Machine machine{{.name = "",
                         .cores = cores,
                         .l1d_caches = {},
                         .l2_caches = {},
                         .l3_caches = {},
                         .usable = CpuSet{{0, 1, 2, 3, 4}}}};
  EXPECT_THAT(texts(place_ranks(machine, 2)), ElementsAre("0", "1"));
  EXPECT_THAT(texts(place_ranks(machine, 4)), ElementsAre("0", "1", "2", "3"));
}

TEST(PlaceRanks, GoesRoundAgainWhenRanksOutnumberCores) {
  const Machine machine = Machine::from_synthetic("package:2 core:2 pu:1");
  EXPECT_THAT(texts(place_ranks(machine, 6)), ElementsAre("0", "1", "2", "3", "0", "2"));
  const Machine single = Machine::from_synthetic("package:1 core:1 pu:1");
  EXPECT_THAT(texts(place_ranks(single, 3)), ElementsAre("0", "0", "0"));
}

TEST(PlaceRanks, UsesEveryCoreOfALargeMachineOnce) {
  const Machine machine = Machine::from_synthetic("package:2 l3:4 core:8 pu:2");
  const auto placed = place_ranks(machine, 64);
  ASSERT_EQ(placed.size(), 64U);
  for (std::size_t rank = 0; rank < placed.size(); ++rank)
    EXPECT_EQ(placed[rank], machine.cores()[rank].processing_units);
}

TEST(PlaceRanks, RefusesNoRanks) {
  EXPECT_THROW(place_ranks(two_packages(), 0), InvalidArgument);
  EXPECT_THROW(place_ranks(two_packages(), -1), InvalidArgument);
}

/// The number of ranks in each part that `place` numbers.
std::map<int, int> ranks_by(const Machine& machine, const std::vector<CpuSet>& placed,
                            int Core::* place) {
  std::map<int, int> ranks;
  for (const Core& core : machine.cores()) ranks[core.*place] += 0;
  for (const CpuSet& set : placed) ++ranks[machine.core_of(*set.begin())->*place];
  return ranks;
}

int imbalance(const std::map<int, int>& ranks) {
  const auto [least, most] = std::ranges::minmax(std::views::values(ranks));
  return most - least;
}

void expect_fair_placement(const Machine& machine, int ranks) {
  const auto placed = place_ranks(machine, ranks);
  ASSERT_EQ(placed.size(), static_cast<std::size_t>(ranks));
  for (const CpuSet& set : placed) {
    ASSERT_FALSE(set.empty());
    ASSERT_TRUE(machine.processing_units().contains(set));
  }
  const auto by_core = ranks_by(machine, placed, &Core::index);
  if (ranks <= static_cast<int>(machine.cores().size())) {
    ASSERT_EQ(std::ranges::max(std::views::values(by_core)), 1) << "a core is shared";
  }
  ASSERT_LE(imbalance(by_core), 1);
  for (const auto place : {&Core::package, &Core::numa_node, &Core::l3})
    ASSERT_LE(imbalance(ranks_by(machine, placed, place)), 1);
}

TEST(PlaceRanks, IsFairOnAnyRegularMachine) {
  for (const int packages : {1, 2, 3})
    for (const int numa_nodes : {1, 2, 3})
      for (const int cores : {1, 3, 4})
        for (const int units : {1, 2}) {
          const std::string description = fmt::format("package:{} numa:{} l3:1 core:{} pu:{}",
                                                      packages, numa_nodes, cores, units);
          const Machine machine = Machine::from_synthetic(description);
          for (int ranks = 1; ranks <= 2 * packages * numa_nodes * cores + 1; ++ranks) {
            SCOPED_TRACE(fmt::format("{} ranks on {}", ranks, description));
            expect_fair_placement(machine, ranks);
          }
        }
}

TEST(PlaceRanks, StaysWithinTheRealMachine) {
  const Machine machine = Machine::discover();
  const int cores = static_cast<int>(machine.cores().size());
  CpuSet used;
  for (const CpuSet& set : place_ranks(machine, cores)) {
    EXPECT_FALSE(set.empty());
    EXPECT_TRUE(machine.processing_units().contains(set));
    EXPECT_FALSE(used.intersects(set));
    used = used | set;
  }
  EXPECT_EQ(used, machine.processing_units());
}

// --- Binding ------------------------------------------------------------------------------------

TEST(Binding, BindsEachThreadWhereItWasPlaced) {
  const Machine machine = Machine::discover();
  const CpuSet before = current_binding();
  for (const CpuSet& set : place_ranks(machine, 3))
    on_own_thread([&] {
      bind_this_thread(set);
      EXPECT_EQ(current_binding(), set);
      EXPECT_TRUE(set.contains(static_cast<unsigned>(::sched_getcpu())));
    });
  EXPECT_EQ(current_binding(), before) << "other threads are not touched";
}

TEST(Binding, SaysWhatIsWrongAndWhatToDo) {
  try {
    bind_this_thread(CpuSet{{CpuSet::largest_index}});
    FAIL() << "bound to a processor that is not there";
  } catch (const SystemError& error) {
    EXPECT_THAT(error.what(), HasSubstr("65535"));
    EXPECT_THAT(error.what(), HasSubstr(to_string(current_binding())));
    EXPECT_THAT(error.what(), HasSubstr("cpuset"));
  }
  EXPECT_THROW(bind_this_thread(CpuSet{}), InvalidArgument);
}

// --- Proximity ----------------------------------------------------------------------------------

TEST(Proximity, NamesTheClosestCommonPart) {
  const Machine machine =
      Machine::from_synthetic("package:2 l3:2(size=32MiB) l2:2(size=4MiB) core:2 pu:2");
  const auto from_first = [&](const char* peer) {
    return proximity(machine, CpuSet{{0}}, CpuSet::parse(peer));
  };
  EXPECT_EQ(from_first("0"), Proximity::same_core);
  EXPECT_EQ(from_first("0-1"), Proximity::same_core);
  EXPECT_EQ(from_first("2-3"), Proximity::same_l2);
  EXPECT_EQ(from_first("4"), Proximity::same_l3);
  EXPECT_EQ(from_first("8"), Proximity::same_package);
  EXPECT_EQ(from_first("16"), Proximity::same_machine);
  EXPECT_EQ(proximity(machine, CpuSet{{16}}, CpuSet{{0}}), Proximity::same_machine);
}

TEST(Proximity, OfWanderingRanksIsThatOfTheirWholeRange) {
  const Machine machine = two_packages();
  EXPECT_EQ(proximity(machine, CpuSet::parse("0-7"), CpuSet::parse("0-7")), Proximity::same_l3);
  EXPECT_EQ(proximity(machine, machine.processing_units(), CpuSet{{0}}), Proximity::same_machine);
}

TEST(Proximity, IsNeverSharedThroughACacheThatIsNotKnown) {
  const Machine machine = Machine::from_synthetic("package:2 core:2 pu:1");
  EXPECT_EQ(proximity(machine, CpuSet{{0}}, CpuSet{{1}}), Proximity::same_package);
}

TEST(Proximity, TreatsUnknownProcessorsAsFarAndRefusesNone) {
  const Machine machine = two_packages();
  EXPECT_EQ(proximity(machine, CpuSet{{0}}, CpuSet{{999}}), Proximity::same_machine);
  EXPECT_EQ(proximity(machine, CpuSet{{999}}, CpuSet{{998}}), Proximity::same_machine);
  EXPECT_THROW(proximity(machine, CpuSet{}, CpuSet{{0}}), InvalidArgument);
}

TEST(Proximity, HasAName) {
  EXPECT_EQ(name_of(Proximity::same_core), "same core");
  EXPECT_EQ(name_of(Proximity::same_l2), "same L2");
  EXPECT_EQ(name_of(Proximity::same_l3), "same L3");
  EXPECT_EQ(name_of(Proximity::same_package), "same package");
  EXPECT_EQ(name_of(Proximity::same_machine), "same machine");
}

}  // namespace
}  // namespace capstan
