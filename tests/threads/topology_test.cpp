// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "capstan/error.hpp"
#include "core/platform/net/host_identity.hpp"
#include "tests/machine_with_devices.hpp"
#include "tests/temporary_folder.hpp"
#include "topology/io.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

using testing::HasSubstr;

constexpr Bytes kib{1 << 10};

/// 2 packages x 2 NUMA nodes x 4 cores x 2 hardware threads: 16 cores, units 0-31.
Machine two_packages() {
  return Machine::from_synthetic("package:2 numa:2 l3:1(size=32MiB) l2:4(size=1MiB) core:1 pu:2");
}

/// Runs `body` on a thread of its own, whose binding ends with it.
template <class Body>
void on_own_thread(Body body) {
  std::thread{body}.join();
}

template <class Thrown, class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const Thrown& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

// --- CpuSet -------------------------------------------------------------------------------------

TEST(CpuSet, PrintsRangesAndReadsThemBack) {
  EXPECT_EQ(to_string(CpuSet{{8, 0, 1, 3, 2, 3}}), "0-3,8");
  EXPECT_EQ(to_string(CpuSet{}), "");
  EXPECT_EQ(CpuSet::parse("0-3,8"), (CpuSet{{0, 1, 2, 3, 8}}));
  EXPECT_EQ(CpuSet::parse("8,0-2,1-3"), (CpuSet{{0, 1, 2, 3, 8}}));
  EXPECT_EQ(CpuSet::parse(""), CpuSet{});
}

TEST(CpuSet, RefusesWhatIsNoList) {
  for (const char* text : {"x", "1,", ",1", "1,,2", "3-1", "-1", "1-", "1 2", "0-4294967295",
                           "65536", "99999999999999999999"})
    EXPECT_THROW(CpuSet::parse(text), InvalidArgument) << text;
}

TEST(CpuSet, ActsAsASet) {
  const CpuSet low{{0, 1, 2}}, high{{2, 3}};
  EXPECT_EQ(low | high, (CpuSet{{0, 1, 2, 3}}));
  EXPECT_EQ(low & high, CpuSet{{2}});
  EXPECT_TRUE(low.intersects(high));
  EXPECT_FALSE(low.intersects(CpuSet{{7}}));
  EXPECT_TRUE(low.contains(1));
  EXPECT_FALSE(low.contains(3));
  EXPECT_TRUE(low.contains(CpuSet{{0, 2}}));
  EXPECT_FALSE(low.contains(high));
}

TEST(CpuSet, SurvivesTextForAnyMembers) {
  for (unsigned bits = 0; bits < 1U << 10; ++bits) {
    std::vector<unsigned> members;
    for (unsigned cpu = 0; cpu < 10; ++cpu)
      if ((bits >> cpu & 1U) != 0) members.push_back(cpu + 995);  // from 995 to 1004
    const CpuSet set{members};
    ASSERT_EQ(set.size(), members.size());
    ASSERT_EQ(CpuSet::parse(to_string(set)), set) << to_string(set);
  }
}

// --- Machine ------------------------------------------------------------------------------------

TEST(Machine, ReadsASyntheticDescription) {
  const Machine machine = two_packages();
  EXPECT_EQ(machine.packages(), 2);
  EXPECT_EQ(machine.numa_nodes(), 4);
  EXPECT_EQ(to_string(machine.processing_units()), "0-31");
  EXPECT_EQ(machine.l2(), kib * 1024);
  EXPECT_EQ(machine.l3(), kib * 32 * 1024);
  ASSERT_EQ(machine.cores().size(), 16U);
  const Core& core = machine.cores()[6];
  EXPECT_EQ(core.package, 0);
  EXPECT_EQ(core.numa_node, 1);
  EXPECT_EQ(core.l3, 1);
  EXPECT_EQ(core.l2, 6);
  EXPECT_EQ(to_string(core.processing_units), "12-13");
  ASSERT_EQ(machine.l3_caches().size(), 4U);
  EXPECT_EQ(to_string(machine.l3_caches()[1].processing_units), "8-15");
  EXPECT_EQ(machine.cores_sharing(machine.l3_caches()[1]), 4);
  EXPECT_EQ(machine.core_of(13), &machine.every_core()[6]);
  EXPECT_EQ(machine.core_of(32), nullptr);
}

TEST(Machine, ReadsAMachineWithoutCachesOrCores) {
  const Machine machine = Machine::from_synthetic("pu:3");
  EXPECT_EQ(machine.packages(), 1);
  EXPECT_EQ(machine.cores().size(), 3U);
  EXPECT_EQ(machine.cores()[2].l3, Core::none);
  EXPECT_EQ(machine.l1d(), Bytes{0});
  EXPECT_EQ(machine.l2(), Bytes{0});
}

TEST(Machine, ReportsTheSmallestKnownOfDifferentCaches) {
  const Machine machine{
      {.name = "hybrid",
       .cores = {{.index = 0, .l2 = 0, .processing_units = CpuSet{{0}}},
                 {.index = 1, .l2 = 1, .processing_units = CpuSet{{1}}},
                 {.index = 2, .l2 = 2, .processing_units = CpuSet{{2}}}},
       .l1d_caches = {},
       .l2_caches = {{Bytes{0}, CpuSet{{0}}}, {kib * 2048, CpuSet{{1}}}, {kib * 512, CpuSet{{2}}}},
       .l3_caches = {},
       .usable = CpuSet{{0, 1, 2}}}};
  EXPECT_EQ(machine.l2(), kib * 512);
}

TEST(Machine, HidesWhatIsNotUsableButKnowsWhereItIs) {
  std::vector<Core> cores;
  for (int i = 0; i < 4; ++i)
    cores.push_back(
        {.index = i,
         .package = i / 2,
         .processing_units = CpuSet{{static_cast<unsigned>(i), static_cast<unsigned>(i + 4)}}});
  const Machine machine{{.name = "",
                         .cores = cores,
                         .l1d_caches = {},
                         .l2_caches = {},
                         .l3_caches = {},
                         .usable = CpuSet{{2, 3, 7}}}};
  ASSERT_EQ(machine.cores().size(), 2U);
  EXPECT_EQ(machine.packages(), 1);
  EXPECT_EQ(machine.cores()[0].processing_units, CpuSet{{2}});
  EXPECT_EQ(machine.cores()[1].processing_units, (CpuSet{{3, 7}}));
  EXPECT_EQ(machine.core_of(5)->index, 1);
  EXPECT_EQ(proximity(machine, CpuSet{{0}}, CpuSet{{5}}), Proximity::same_package);
}

TEST(Machine, RefusesDescriptionsWithTheReason) {
  EXPECT_THAT(message_of<InvalidArgument>([] { Machine::from_synthetic("socks:2"); }),
              HasSubstr("socks:2"));
  EXPECT_THAT(message_of<InvalidArgument>([] { Machine::from_xml("/proc/no/such/m.xml"); }),
              HasSubstr("/proc/no/such/m.xml"));
  EXPECT_THROW(Machine{MachineDescription{}}, InvalidArgument);
}

TEST(Machine, ReadsXml) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "machine.xml";
  std::ofstream{path} << R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003"
          allowed_cpuset="0x00000002" nodeset="0x1" complete_nodeset="0x1" allowed_nodeset="0x1">
    <info name="CPUModel" value="Paper CPU"/>
    <object type="NUMANode" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003"
            nodeset="0x1" complete_nodeset="0x1" local_memory="1048576"/>
    <object type="L3Cache" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x1"
            complete_nodeset="0x1" cache_size="8388608" depth="3" cache_linesize="64"
            cache_associativity="16" cache_type="0">
      <object type="Core" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001"
              nodeset="0x1" complete_nodeset="0x1">
        <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001"
                nodeset="0x1" complete_nodeset="0x1"/>
      </object>
      <object type="Core" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002"
              nodeset="0x1" complete_nodeset="0x1">
        <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002"
                nodeset="0x1" complete_nodeset="0x1"/>
      </object>
    </object>
  </object>
</topology>
)";
  const Machine machine = Machine::from_xml(path);
  EXPECT_EQ(machine.name(), "Paper CPU");
  EXPECT_EQ(machine.l3(), kib * 8192);
  EXPECT_EQ(machine.every_core().size(), 2U);
  EXPECT_EQ(to_string(machine.processing_units()), "1");
}

TEST(Io, ReadsCardsGpusAndDistances) {
  const test::MachineWithDevices file;
  const IoTopology io = IoTopology::from_xml(file.path());
  ASSERT_EQ(io.devices.size(), 4U) << "no disk, no screen";
  const auto at = [&](const std::string& address) -> const IoDevice& {
    return *std::ranges::find(io.devices, address, &IoDevice::bus_id);
  };
  const IoDevice &card = at("0000:01:00.0"), &near = at("0000:02:00.0"),
                 &beside = at("0000:00:05.0"), &far = at("0001:01:00.0");
  EXPECT_EQ(card.kind, IoDevice::Kind::network);
  EXPECT_EQ(card.name(), "eth7, mlx5_0");
  EXPECT_EQ(card.model, "Paper Adapter <1>");
  EXPECT_NEAR(card.link_rate, 31.5, 0.01);
  EXPECT_EQ(card.numa_node, 0);
  EXPECT_EQ(to_string(card.near), "0");
  EXPECT_EQ(near.kind, IoDevice::Kind::gpu);
  EXPECT_EQ(beside.name(), "0000:00:05.0");
  EXPECT_EQ(far.numa_node, 1);
  EXPECT_EQ(path_between(card, card), IoPath::same_device);
  EXPECT_EQ(path_between(card, near), IoPath::same_switch);
  EXPECT_EQ(path_between(beside, near), IoPath::same_host_bridge);
  EXPECT_EQ(path_between(card, far), IoPath::same_machine);
  EXPECT_EQ(io.numa_distances, (std::vector<std::vector<double>>{{10, 21}, {31, 10}}));
  EXPECT_THAT(io.nearest(IoDevice::Kind::gpu, CpuSet{{1}}), testing::ElementsAre(&far));
  EXPECT_THAT(io.nearest(IoDevice::Kind::network, CpuSet{{1}}), testing::IsEmpty());
}

TEST(Io, WhatIsNotKnownIsFarAway) {
  IoDevice a, b;
  a.names = {"rxe0"}, b.names = {"rxe1"};
  EXPECT_EQ(path_between(a, b), IoPath::same_machine) << "neither bus nor NUMA node";
  EXPECT_EQ(path_between(a, a), IoPath::same_device);
  a.numa_node = b.numa_node = 1;
  EXPECT_EQ(path_between(a, b), IoPath::same_numa_node);
}

TEST(Io, ThisMachineIsRead) {
  const IoTopology io = IoTopology::discover();
  const Machine machine = Machine::discover();
  CpuSet all;
  for (const Core& core : machine.every_core()) all = all | core.processing_units;
  for (const IoDevice& device : io.devices) {
    EXPECT_FALSE(device.name().empty());
    EXPECT_TRUE(all.contains(device.near)) << device.name();
  }
}

TEST(Io, FilesThatCannotBeReadAreNamed) {
  EXPECT_THAT(message_of<InvalidArgument>([] { IoTopology::from_xml("/proc/no/such/m.xml"); }),
              HasSubstr("/proc/no/such/m.xml"));
}

TEST(Machine, DiscoversExactlyWhatThisThreadMayUse) {
  const Machine machine = Machine::discover();
  EXPECT_EQ(machine.processing_units(), current_binding());
  CpuSet of_cores;
  for (const Core& core : machine.cores()) {
    EXPECT_FALSE(of_cores.intersects(core.processing_units)) << "cores overlap";
    of_cores = of_cores | core.processing_units;
  }
  EXPECT_EQ(of_cores, machine.processing_units());
}

TEST(Machine, DiscoversTheRestOfTheMachineFromANarrowBinding) {
  const Machine before = Machine::discover();
  on_own_thread([&] {
    const CpuSet last{{*std::prev(before.processing_units().end())}};
    bind_this_thread(last);
    const Machine machine = Machine::discover();
    EXPECT_EQ(machine.processing_units(), last);
    EXPECT_EQ(machine.cores().size(), 1U);
    EXPECT_EQ(machine.every_core().size(), before.every_core().size());
  });
}

// --- Host ---------------------------------------------------------------------------------------

TEST(HostIdentity, IsStableAndHoldsTheBootId) {
  std::string boot_id;
  ASSERT_TRUE(std::getline(std::ifstream{"/proc/sys/kernel/random/boot_id"}, boot_id));
  EXPECT_THAT(host_identity(), HasSubstr(boot_id));
  EXPECT_GT(host_identity().size(), boot_id.size());
  std::string from_thread;
  on_own_thread([&] { from_thread = host_identity(); });
  EXPECT_EQ(from_thread, host_identity());
}

}  // namespace
}  // namespace capstan
