// SPDX-License-Identifier: Apache-2.0

// The places of short blocks in long slots: all of them hold what any rank stages.

#include <gtest/gtest.h>

#include "algorithms/registry.hpp"
#include "core/schedule/lowering/plan.hpp"

namespace capstan {
namespace {

constexpr PlanLimits limits{.block = Bytes{512 << 10}, .cached_buffers = Bytes{8 << 20}};

Call call_of(const Algorithm& algorithm, int ranks, std::uint64_t count) {
  Call call{.collective = algorithm.collective, .type = DataType::f32};
  if (has_counts(algorithm.collective)) {
    const int lengths = algorithm.collective == Collective::all_to_all_v ? ranks * ranks : ranks;
    for (int i = 0; i < lengths; ++i)
      call.shape.counts.emplace_back(count * static_cast<std::uint64_t>(i % 3) / 2);
  } else if (algorithm.collective != Collective::barrier) {
    call.shape.count = Elements{count};
  }
  return call;
}

Bytes longest_staging(const Plan& plan) {
  Elements longest;
  for (const BoundProgram& program : plan.programs)
    longest = std::max(longest, std::ranges::max(program.source.staging));
  return bytes_of(longest, plan.element);
}

/// The number of plans whose blocks have several places.
int check_places(const Algorithm& algorithm, Protocol protocol, int ranks, std::uint64_t count) {
  const Hosts hosts{ranks};
  const SlotLayout layout{ranks, Bytes{(512 << 10) + 8192}};
  if (!algorithm.suits(hosts) || ranks > algorithm.max_ranks || in_packets(protocol) ||
      !runs_in(algorithm, protocol, hosts))
    return 0;
  int with_places = 0;
  SlotPlaces first;
  for (const Rank rank : all_ranks(ranks)) {
    const Plan plan = make_plan(call_of(algorithm, ranks, count), {&algorithm, protocol}, hosts,
                                rank, limits, layout);
    const auto [places, distance] = plan.places;
    if (rank == Rank{0}) first = plan.places;
    EXPECT_EQ(places, first.count) << "rank " << rank.value();
    EXPECT_EQ(distance, first.distance);
    if (places == 1) continue;
    ++with_places;
    EXPECT_EQ(plan.slots, SlotKind::staging);
    EXPECT_LE(longest_staging(plan).value(), distance) << "rank " << rank.value();
    EXPECT_LE(places * distance, layout.region(plan.slots).value());
  }
  return with_places;
}

TEST(PlacesInSlots, HoldWhatAnyRankStages) {
  int with_places = 0;
  for (const Collective collective : all_collectives())
    for (const Algorithm& algorithm : algorithms(collective))
      for (const Protocol protocol : all_protocols)
        for (const int ranks : {2, 3, 5, 8})
          for (const std::uint64_t count : {100, 5000, 20'001, 40'000, 1'000'001}) {
            SCOPED_TRACE(testing::Message()
                         << name_of(collective) << " by " << algorithm.name << " "
                         << name_of(protocol) << ", " << ranks << " ranks, " << count);
            with_places += check_places(algorithm, protocol, ranks, count);
          }
  EXPECT_GT(with_places, 500);
}

TEST(PlacesInSlots, AreOneBetweenHostsAndAmongManyRanks) {
  const Algorithm& algorithm = algorithms(Collective::all_reduce).front();
  const Call call = call_of(algorithm, 2, 20'000);
  const auto places = [&](const Hosts& hosts) {
    return make_plan(call, {&algorithm, Protocol::staged}, hosts, Rank{0}, limits,
                     SlotLayout{hosts.ranks(), Bytes{1 << 20}})
        .places.count;
  };
  EXPECT_GT(places(Hosts{2}), 1U);
  EXPECT_EQ(places(Hosts{std::vector<int>{0, 1}}), 1U);
  EXPECT_EQ(places(Hosts{9}), 1U);
}

}  // namespace
}  // namespace capstan
