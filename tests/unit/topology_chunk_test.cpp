// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "capstan/error.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

using testing::HasSubstr;

constexpr Bytes kib{1 << 10};

struct ChunkCase {
  const char* machine;
  int ranks;
  Bytes bytes;
  const char* reason;
};

class ChunkSize : public testing::TestWithParam<ChunkCase> {};

TEST_P(ChunkSize, IsDerivedFromBelievableCaches) {
  const auto& [description, ranks, bytes, reason] = GetParam();
  const Machine machine = Machine::from_synthetic(description);
  EXPECT_EQ(chunk_bytes_for(machine, ranks), bytes) << description;
  const ChunkChoice choice = choose_chunk(machine, place_ranks(machine, ranks));
  EXPECT_EQ(choice.bytes, bytes);
  EXPECT_THAT(choice.reason, HasSubstr(reason));
}

constexpr const char* cloud_vm = "l3:1(size=480MiB) l2:4(size=2MiB) core:1 pu:1";
constexpr const char* small_l2 = "l3:1(size=20MiB) l2:8(size=256KiB) core:1 pu:2";

INSTANTIATE_TEST_SUITE_P(
    Machines, ChunkSize,
    testing::Values(
        ChunkCase{"l3:1(size=60MiB) l2:8(size=2MiB) core:1 pu:1", 8, kib * 128, "each of 8 ranks"},
        ChunkCase{"l3:1(size=60MiB) l2:4(size=2MiB) core:1 pu:1", 4, kib * 256, "2 MiB of L2"},
        ChunkCase{"l3:1(size=12MiB) l2:4(size=3MiB) core:1 pu:1", 4, kib * 128, "each of 4 ranks"},
        ChunkCase{"l3:1(size=16MiB) l2:2(size=12MiB) core:4 pu:1", 2, kib * 1024, "12 MiB of L2"},
        ChunkCase{"l3:1(size=48MiB) l2:4(size=3MiB) core:1 pu:1", 4, kib * 512, "3 MiB of L2"},
        ChunkCase{"l3:1(size=16MiB) l2:2(size=8MiB) core:4 pu:1", 8, kib * 64, "each of 8 ranks"},
        ChunkCase{"l3:1(size=16MiB) l2:2(size=1MiB) core:1 pu:1", 1, kib * 256, "16 MiB of L3"},
        ChunkCase{small_l2, 4, kib * 128, "1.25 MiB of L3 (for each of 4 ranks)"},
        ChunkCase{small_l2, 8, kib * 64, "for each of 8 ranks"},
        ChunkCase{"l3:1(size=4MiB) l2:8(size=256KiB) core:1 pu:1", 8, kib * 64, "L3"},
        ChunkCase{"l2:4(size=1MiB) core:1 pu:1", 4, kib * 128, "L3 is unknown"},
        ChunkCase{"l2:4(size=256KiB) core:1 pu:1", 4, kib * 64, "too small"},
        ChunkCase{"l3:1(size=16MiB) core:4 pu:1", 2, kib * 256, "L2 is unknown"},
        // An implausible L3 does not matter if L2 is known.
        ChunkCase{cloud_vm, 4, kib * 256, "120 MiB per core cannot be real"},
        // Unknown caches.
        ChunkCase{"core:4 pu:1", 4, kib * 256, "unknown"},
        ChunkCase{"l3:1(size=480MiB) core:4 pu:1", 4, kib * 256, "cannot be real"},
        ChunkCase{"l3:1(size=16MiB) l2:4(size=4MiB) core:1 pu:1", 4, kib * 256,
                  "4 MiB per core cannot be real"},
        ChunkCase{"l3:1(size=2MiB) l2:4(size=2MiB) core:1 pu:1", 4, kib * 256, "cannot be real"},
        // Ranks that share a core do not divide its L2.
        ChunkCase{cloud_vm, 9, kib * 256, "2 MiB of L2"}));

TEST(ChunkSize, IsAPowerOfTwoWithinItsLimitsOnAnyMachine) {
  for (const int l3_kib : {0, 100, 3000, 40'000, 600'000})
    for (const int l2_kib : {0, 1, 200, 1024, 3333, 16'000})
      for (const int cores : {1, 3, 4})
        for (const int ranks : {1, 2, 7, 40}) {
          const std::string description = fmt::format(
              "package:2 l3:1(size={}KiB) l2:2(size={}KiB) core:{} pu:1", l3_kib, l2_kib, cores);
          const auto bytes = chunk_bytes_for(Machine::from_synthetic(description), ranks).value();
          EXPECT_TRUE(std::has_single_bit(bytes))
              << bytes << " for " << ranks << ": " << description;
          EXPECT_GE(bytes, 64U << 10) << ranks << " on " << description;
          EXPECT_LE(bytes, 1U << 20) << ranks << " on " << description;
        }
}

TEST(ChunkSize, DoesNotDependOnWhichPartACallerMayUse) {
  const std::vector<CpuSet> bindings{CpuSet{{0}}, CpuSet{{2}}};
  const auto seen_from = [&](const CpuSet& usable) {
    const Machine all = Machine::from_synthetic(small_l2);
    return choose_chunk(Machine{{.name = "",
                                 .cores = {all.every_core().begin(), all.every_core().end()},
                                 .l1d_caches = {},
                                 .l2_caches = {all.l2_caches().begin(), all.l2_caches().end()},
                                 .l3_caches = {all.l3_caches().begin(), all.l3_caches().end()},
                                 .usable = usable}},
                        bindings);
  };
  EXPECT_EQ(seen_from(bindings[0]).reason, seen_from(bindings[1]).reason);
  EXPECT_EQ(seen_from(bindings[0]).bytes, seen_from(bindings[1]).bytes);
}

TEST(ChunkSize, CountsRanksThatWanderInPart) {
  // Four ranks, each bound to all four cores, load each L2 like one rank.
  const Machine machine = Machine::from_synthetic("l2:4(size=2MiB) core:1 pu:1");
  const std::vector<CpuSet> wandering(4, machine.processing_units());
  EXPECT_EQ(choose_chunk(machine, wandering).bytes, kib * 256);
  EXPECT_THAT(choose_chunk(machine, wandering).reason, HasSubstr("2 MiB of L2"));
}

TEST(ChunkSize, IsSaneHereAndRefusesNoRanks) {
  const Machine here = Machine::discover();
  EXPECT_GE(chunk_bytes_for(here, 2), kib * 64);
  EXPECT_LE(chunk_bytes_for(here, 2), kib * 1024);
  EXPECT_THROW(chunk_bytes_for(here, 0), InvalidArgument);
  EXPECT_THROW(choose_chunk(here, {}), InvalidArgument);
  EXPECT_THROW(choose_chunk(here, std::vector<CpuSet>(1)), InvalidArgument);
}

}  // namespace
}  // namespace capstan
