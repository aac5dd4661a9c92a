// SPDX-License-Identifier: Apache-2.0

// Registrations of memory of devices, of which a function of the test decides.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/devices/device_array.hpp"
#include "transports/common/device_regions.hpp"

namespace capstan {
namespace {

class Regions : public ::testing::Test {
 protected:
  void SetUp() override {
    load_driver();
    look_for_devices();
  }

  /// Counts the call, and the registration as long as it lives.
  DeviceRegions::Keys register_memory(AddressRange memory) {
    ++tried_;
    last_ = memory;
    if (refuse_) return nullptr;
    ++registered_;
    return {new MemoryKeys{.origin = memory.begin}, [this](const MemoryKeys* keys) {
              --registered_;
              delete keys;
            }};
  }

  bool refuse_ = false;
  int tried_ = 0, registered_ = 0;
  AddressRange last_{};
  DeviceRegions regions_{
      [this](const DeviceBuffer&, AddressRange memory) { return register_memory(memory); }};
};

TEST_F(Regions, AnAllocationIsRegisteredOnceAndAsAWhole) {
  const Memory memory{Where::device, 10'000}, other{Where::pool, 5000};
  for (const std::size_t offset : {0, 1, 9999}) {
    const auto keys = regions_.acquire(memory.data() + offset, Bytes{1});
    ASSERT_NE(keys, nullptr);
    EXPECT_EQ(keys->origin, reinterpret_cast<std::uintptr_t>(memory.data()));
  }
  EXPECT_EQ(tried_, 1);
  EXPECT_EQ(last_.begin, reinterpret_cast<std::uintptr_t>(memory.data()));
  EXPECT_GE(last_.end, last_.begin + 10'000);
  EXPECT_NE(regions_.acquire(other.data(), Bytes{5000}), nullptr);
  EXPECT_EQ(registered_, 2) << "also without a use";
}

TEST_F(Regions, WhatIsRefusedIsNotTriedAtEveryMessage) {
  refuse_ = true;
  const Memory memory{Where::device, 10'000}, other{Where::device, 10'000};
  for (int i = 0; i < 3; ++i) EXPECT_EQ(regions_.acquire(memory.data(), Bytes{10'000}), nullptr);
  EXPECT_EQ(tried_, 1);
  EXPECT_EQ(regions_.acquire(other.data(), Bytes{10'000}), nullptr);
  EXPECT_EQ(tried_, 2);
  refuse_ = false;
  regions_.forget(memory.data());
  EXPECT_NE(regions_.acquire(memory.data(), Bytes{10'000}), nullptr);
}

TEST_F(Regions, OtherMemoryAtTheSameAddressIsRegisteredAnew) {
  for (const bool refused : {true, false}) {
    std::optional<Memory> memory{std::in_place, Where::device, std::size_t{10'000}};
    const std::byte* const address = memory->data();
    refuse_ = refused;
    EXPECT_EQ(regions_.acquire(address, Bytes{1}) == nullptr, refused);
    refuse_ = false;
    const int tried = tried_;
    memory.reset();
    memory.emplace(Where::device, std::size_t{10'000});
    if (memory->data() != address) GTEST_SKIP() << "the memory is at another address";
    EXPECT_NE(regions_.acquire(address, Bytes{1}), nullptr);
    EXPECT_EQ(tried_, tried + 1);
    EXPECT_EQ(registered_, 1) << "the former one has ended";
    regions_.forget(address);
    EXPECT_EQ(registered_, 0);
  }
}

TEST_F(Regions, OnlySoManyStayKnown) {
  std::vector<std::unique_ptr<Memory>> all;
  for (std::size_t i = 0; i < DeviceRegions::most + 10; ++i) {
    all.push_back(std::make_unique<Memory>(Where::device, 100));
    EXPECT_NE(regions_.acquire(all.back()->data(), Bytes{100}), nullptr);
  }
  EXPECT_EQ(registered_, static_cast<int>(DeviceRegions::most));
}

TEST_F(Regions, HostMemoryIsNone) {
  const int host = 0;
  EXPECT_EQ(regions_.acquire(&host, Bytes{4}), nullptr);
  EXPECT_EQ(tried_, 0);
}

}  // namespace
}  // namespace capstan
