// SPDX-License-Identifier: Apache-2.0
#include "transports/common/registered_sources.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "core/platform/memory/registration/mapping_monitor.hpp"
#include "tests/threads/registration_helpers.hpp"

namespace capstan {
namespace {

using testing_memory::FakeRegistrar;
using testing_memory::page;

/// Private anonymous memory, which can be replaced by other memory at the same addresses.
class Memory {
 public:
  explicit Memory(std::size_t pages) : size_(pages * page), data_(map(nullptr, 0)) {}
  Memory(const Memory&) = delete;
  ~Memory() { ::munmap(data_, size_); }

  /// Replaces it in one step, as otherwise another thread may get the addresses.
  void replace() { ASSERT_EQ(map(data_, MAP_FIXED), data_); }
  const std::byte* data() const { return data_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  Bytes size() const { return Bytes{size_}; }

 private:
  std::byte* map(void* where, int flags) const {
    void* memory =
        ::mmap(where, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return static_cast<std::byte*>(memory);
  }

  const std::size_t size_;
  std::byte* const data_;
};

class RegisteredSourcesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto monitor = MappingMonitor::shared();
    if (!monitor->active()) GTEST_SKIP() << monitor->description();
  }

  FakeRegistrar device;
};

constexpr RegisteredSources::Limits plenty{};

TEST_F(RegisteredSourcesTest, ABufferThatIsUsedAgainIsRegisteredOnce) {
  RegisteredSources sources{device, plenty};
  const Memory buffer{8};
  for (int i = 0; i < 100; ++i) EXPECT_EQ(sources.acquire(buffer.data(), buffer.size())->local, 1u);
  EXPECT_EQ(device.last, 1u);
  EXPECT_EQ(device.live.size(), 1u) << "it is kept";
}

TEST_F(RegisteredSourcesTest, OfAnAnnouncedBufferTheWholeIsRegistered) {
  RegisteredSources sources{device, plenty};
  const Memory input{8}, output{16};
  sources.announce(input.bytes(), output.bytes());
  EXPECT_EQ(device.last, 0u) << "nothing that is not used";
  for (std::size_t i = 0; i < 8; ++i) sources.acquire(input.data() + i * page + 7, Bytes{page - 7});
  EXPECT_EQ(device.last, 1u);
  sources.acquire(output.data() + 3 * page, Bytes{page});
  EXPECT_EQ(device.last, 2u);
  sources.announce({}, {});
  sources.acquire(output.data(), output.size());
  EXPECT_EQ(device.last, 2u) << "it is kept beyond the announcement";
}

TEST_F(RegisteredSourcesTest, OtherMemoryAtTheSameAddressIsRegisteredAnew) {
  RegisteredSources sources{device, plenty};
  Memory buffer{4};
  EXPECT_EQ(sources.acquire(buffer.data(), buffer.size())->local, 1u);
  buffer.replace();
  EXPECT_EQ(sources.acquire(buffer.data(), buffer.size())->local, 2u);
  EXPECT_EQ(device.live.size(), 1u) << "the first is gone";
}

TEST_F(RegisteredSourcesTest, AlsoWhenItWasAnnounced) {
  RegisteredSources sources{device, plenty};
  Memory buffer{4};
  sources.announce(buffer.bytes(), {});
  EXPECT_EQ(sources.acquire(buffer.data(), Bytes{page})->local, 1u);
  buffer.replace();
  sources.announce(buffer.bytes(), {});
  EXPECT_EQ(sources.acquire(buffer.data(), Bytes{page})->local, 2u);
  EXPECT_EQ(device.live.size(), 1u);
}

TEST_F(RegisteredSourcesTest, WhatIsKeptStaysBelowTheLimit) {
  constexpr Bytes limit{4 * page};
  RegisteredSources sources{device, {.bytes = limit}};
  const Memory buffer{64};
  for (std::size_t i = 0; i < 64; i += 2) {
    sources.acquire(buffer.data() + i * page, Bytes{page});
    EXPECT_LE(device.bytes, limit);
  }
  EXPECT_GT(sources.statistics().evictions, 0u);
}

TEST_F(RegisteredSourcesTest, MoreThanTheLimitIsRegisteredWhileItIsUsed) {
  constexpr Bytes limit{4 * page};
  RegisteredSources sources{device, {.bytes = limit}};
  const Memory buffer{64};
  sources.announce(buffer.bytes(), {});
  {
    const auto whole = sources.acquire(buffer.data(), buffer.size());
    EXPECT_EQ(device.bytes, buffer.size());
    const auto part = sources.acquire(buffer.data(), Bytes{page});
    EXPECT_EQ(device.bytes, buffer.size() + Bytes{page}) << "an announced buffer only if it fits";
  }
  EXPECT_EQ(device.bytes, Bytes{page});
}

TEST_F(RegisteredSourcesTest, WhatNobodyWatchesIsRegisteredOncePerAnnouncement) {
  RegisteredSources sources{device, plenty};
  void* shared =
      ::mmap(nullptr, 8 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const std::span<const std::byte> bytes{static_cast<const std::byte*>(shared), 8 * page};
  for (std::uint64_t call = 1; call <= 3; ++call) {
    sources.announce(bytes, {});
    for (std::size_t i = 0; i < 8; ++i) sources.acquire(bytes.data() + i * page, Bytes{page});
    EXPECT_EQ(device.last, call);
    EXPECT_EQ(device.live.size(), 1u);
  }
  sources.announce({}, {});
  EXPECT_TRUE(device.live.empty());
  ::munmap(shared, 8 * page);
}

TEST_F(RegisteredSourcesTest, MemoryThatTheDeviceCannotHaveCostsTheOthersNothing) {
  RegisteredSources sources{device, plenty};
  const Memory buffer{4}, impossible{4};
  sources.acquire(buffer.data(), buffer.size());
  device.impossible = {reinterpret_cast<std::uintptr_t>(impossible.data()),
                       reinterpret_cast<std::uintptr_t>(impossible.data()) + 4 * page};
  EXPECT_THROW(sources.acquire(impossible.data(), impossible.size()), InvalidArgument);
  EXPECT_EQ(device.live.size(), 1u);
}

TEST_F(RegisteredSourcesTest, ARefusalIsToldToWhoPushes) {
  RegisteredSources sources{device, plenty};
  const Memory buffer{4};
  device.refusals = 2;  // of the cache, and of the attempt without it
  EXPECT_THROW(sources.acquire(buffer.data(), buffer.size()), LimitReached);
  EXPECT_EQ(sources.acquire(buffer.data(), buffer.size())->local, 1u);
}

}  // namespace
}  // namespace capstan
