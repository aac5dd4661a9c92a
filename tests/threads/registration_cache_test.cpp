// SPDX-License-Identifier: Apache-2.0
#include "core/platform/memory/registration/registration_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "capstan/error.hpp"
#include "tests/threads/registration_helpers.hpp"

namespace capstan {
namespace {

using namespace testing_memory;
using ::testing::HasSubstr;
using Limits = RegistrationCache::Limits;

constexpr std::uintptr_t base = 0x10'0000;

struct RegistrationCacheTest : ::testing::Test {
  RegistrationCache::Lease acquire(std::uint64_t first_page, std::uint64_t pages) {
    return cache.acquire(at(base + first_page * page), Bytes{pages * page});
  }
  std::uint64_t hits() { return cache.statistics().hits; }

  FakeRegistrar registrar;
  std::shared_ptr<FakeMonitor> monitor = std::make_shared<FakeMonitor>();
  RegistrationCache cache{registrar, Limits{Bytes{16 * page}, 4}, monitor};
};

TEST_F(RegistrationCacheTest, WhatCoversARangeServesIt) {
  const auto number = acquire(0, 4).keys().local;
  for (const auto& [first, pages] : {std::pair{0, 4}, {0, 1}, {3, 1}, {1, 2}}) {
    const auto lease = acquire(first, pages);
    EXPECT_EQ(lease.keys().local, number);
    EXPECT_EQ(lease.range(), (AddressRange{base, base + 4 * page}));
  }
  EXPECT_EQ(registrar.last, 1U);
  EXPECT_EQ(hits(), 4U);
  EXPECT_EQ(cache.statistics().misses, 1U);
  EXPECT_EQ(cache.statistics().bytes, Bytes{4 * page});
}

TEST_F(RegistrationCacheTest, RangesAreRoundedToPages) {
  EXPECT_EQ(cache.acquire(at(base + 100), Bytes{1}).range(), (AddressRange{base, base + page}));
  EXPECT_EQ(cache.acquire(at(base + page - 1), Bytes{2}).range(),
            (AddressRange{base, base + 2 * page}));
}

TEST_F(RegistrationCacheTest, OverlappingOnesBecomeOne) {
  acquire(0, 2);
  acquire(4, 2);
  EXPECT_EQ(acquire(1, 4).range(), (AddressRange{base, base + 6 * page}));
  EXPECT_EQ(registrar.live.size(), 1U);
  EXPECT_EQ(cache.statistics().replacements, 2U);
  EXPECT_EQ(monitor->watched, (std::vector{AddressRange{base, base + 6 * page}}));
}

TEST_F(RegistrationCacheTest, AReplacedOneLivesAsLongAsItsLease) {
  auto old = acquire(0, 2);
  const auto both = acquire(1, 2);
  EXPECT_NE(old.keys().local, both.keys().local);
  EXPECT_EQ(registrar.live.size(), 2U);
  old.reset();
  EXPECT_EQ(registrar.live.size(), 1U);
  EXPECT_EQ(registrar.live.count(both.keys().local), 1U);
}

TEST_F(RegistrationCacheTest, TheLeastRecentlyUsedGoFirst) {
  for (std::uint64_t first : {0, 10, 20, 30}) acquire(first, 4);
  acquire(0, 4);  // used again
  acquire(40, 4);
  EXPECT_EQ(cache.statistics().evictions, 1U);
  EXPECT_EQ(registrar.last, 5U);
  acquire(0, 4);
  acquire(20, 4);
  EXPECT_EQ(registrar.last, 5U) << "10 should have gone";
  EXPECT_LE(registrar.bytes, Bytes{16 * page});
}

TEST_F(RegistrationCacheTest, WhatIsInUseIsNotEvicted) {
  const auto used = acquire(0, 8);
  acquire(10, 8);
  acquire(20, 8);
  EXPECT_EQ(registrar.live.count(used.keys().local), 1U);
  try {
    acquire(30, 9);
    FAIL() << "17 pages of 16";
  } catch (const LimitReached& error) {
    EXPECT_THAT(error.what(), HasSubstr("36 KiB do not fit in: 32 KiB in 1 registrations"));
    EXPECT_THAT(error.what(), HasSubstr("of at most 64 KiB in 4"));
  }
  EXPECT_EQ(registrar.live.size(), 2U) << "nothing is evicted in vain";
}

TEST_F(RegistrationCacheTest, TheNumberOfRegistrationsIsLimitedToo) {
  std::vector<RegistrationCache::Lease> leases;
  for (std::uint64_t i = 0; i < 4; ++i) leases.push_back(acquire(2 * i, 1));
  EXPECT_THROW(acquire(20, 1), LimitReached);
  leases.pop_back();
  EXPECT_NO_THROW(acquire(20, 1));
}

TEST_F(RegistrationCacheTest, MemoryThatChangedIsRegisteredAnew) {
  const auto first = acquire(0, 4).keys().local;
  monitor->change({base + 3 * page, base + 5 * page});
  EXPECT_NE(acquire(0, 4).keys().local, first);
  EXPECT_EQ(registrar.live.count(first), 0U);
  EXPECT_EQ(cache.statistics().invalidations, 1U);
}

TEST_F(RegistrationCacheTest, AStaleOneIsNotFoundButLivesAsLongAsItsLease) {
  auto used = acquire(0, 4);
  monitor->change({base, base + page});
  const auto fresh = acquire(0, 1);
  EXPECT_NE(fresh.keys().local, used.keys().local);
  EXPECT_EQ(registrar.live.size(), 2U);
  used.reset();
  EXPECT_EQ(registrar.live.size(), 1U);
}

TEST_F(RegistrationCacheTest, AnyAcquireFreesWhatIsStale) {
  acquire(0, 4);
  monitor->change({base, base + page});
  const auto elsewhere = acquire(8, 1);
  EXPECT_EQ(registrar.live.size(), 1U);
  EXPECT_EQ(monitor->watched, std::vector{elsewhere.range()});
}

TEST_F(RegistrationCacheTest, ALogThatWasMissedDropsAllThatIsWatched) {
  acquire(0, 1);
  acquire(2, 1);
  monitor->lost = true;
  const auto fresh = acquire(0, 1);
  EXPECT_EQ(registrar.live.size(), 1U);
  EXPECT_EQ(fresh.keys().local, 3U);
  EXPECT_EQ(cache.statistics().invalidations, 2U);
}

TEST_F(RegistrationCacheTest, InvalidateDropsWhatOverlaps) {
  const auto used = acquire(0, 1);
  acquire(2, 1);
  const auto other = acquire(4, 1).keys().local;
  cache.invalidate(at(base), Bytes{2 * page + 1});
  EXPECT_EQ(registrar.live.size(), 2U) << "one in use, one beyond the range";
  EXPECT_EQ(acquire(4, 1).keys().local, other);
  EXPECT_NE(acquire(0, 1).keys().local, used.keys().local);
}

TEST_F(RegistrationCacheTest, WhatCannotBeWatchedIsRegisteredForEachLease) {
  monitor->unwatchable = AddressRange{base, base + 8 * page};
  auto first = acquire(0, 2), second = acquire(0, 2);
  EXPECT_NE(first.keys().local, second.keys().local);
  EXPECT_EQ(registrar.live.size(), 2U);
  first.reset();
  second.reset();
  EXPECT_TRUE(registrar.live.empty());
  EXPECT_EQ(cache.statistics().uncached, 2U);
  EXPECT_EQ(cache.statistics().count, 0U);
}

TEST_F(RegistrationCacheTest, ADeviceThatRefusesGetsRoomFirst) {
  acquire(0, 1);
  acquire(2, 1);
  registrar.refusals = 1;
  EXPECT_TRUE(acquire(4, 1).valid());
  EXPECT_EQ(registrar.live.size(), 1U);
  registrar.refusals = 2;
  EXPECT_THROW(acquire(6, 1), LimitReached);
  EXPECT_TRUE(monitor->watched.empty()) << "what was not registered is not watched";
  EXPECT_EQ(cache.statistics().bytes, Bytes{});
}

TEST_F(RegistrationCacheTest, BadArgumentsAreRefused) {
  EXPECT_THROW(cache.acquire(nullptr, Bytes{8}), InvalidArgument);
  EXPECT_THROW(cache.acquire(at(base), Bytes{0}), InvalidArgument);
  EXPECT_THROW(cache.acquire(at(base), Bytes{~std::uint64_t{0}}), InvalidArgument);
  EXPECT_EQ(registrar.last, 0U);
}

TEST_F(RegistrationCacheTest, LeasesMove) {
  auto first = acquire(0, 1);
  auto second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT: that it may be asked is the point
  second = acquire(2, 1);
  EXPECT_TRUE(second.valid());
  second.reset();
  second.reset();
  EXPECT_FALSE(second.valid());
}

TEST_F(RegistrationCacheTest, AForkedChildIsToldToMakeItsOwn) {
  acquire(0, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      acquire(0, 1);
    } catch (const Error& error) {
      const bool explained = std::string_view{error.what()}.find("fork") != std::string::npos;
      cache.invalidate(at(base), Bytes{page});
      ::_exit(explained && registrar.live.size() == 1 ? 0 : 1);
    }
    ::_exit(2);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// Threads hit, miss, evict and join concurrently; the registrar checks every deregistration.
TEST(RegistrationCacheThreads, ShareOneCache) {
  FakeRegistrar registrar;
  // Registrations that overlap become one: each of four leases may hold nearly everything.
  RegistrationCache cache{registrar, Limits{Bytes{4 * 108 * page}, 16},
                          std::make_shared<FakeMonitor>()};
  std::atomic<int> uncovered{0};
  std::vector<std::jthread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, random = thread * 77 + 1]() mutable {
      for (int i = 0; i < 2000; ++i) {
        random = random * 6364136223846793005U + 1442695040888963407U;
        const auto begin = base + (random >> 33) % 100 * page;
        const AddressRange wanted{begin, begin + (1 + (random >> 50) % 8) * page};
        const auto lease = cache.acquire(wanted.data(), wanted.size());
        if (!lease.range().contains(wanted)) ++uncovered;
        if (i % 100 == 0) cache.invalidate(wanted.data(), wanted.size());
      }
    });
  threads.clear();
  EXPECT_EQ(uncovered, 0);
  const auto statistics = cache.statistics();
  EXPECT_EQ(statistics.hits + statistics.misses, 8000U);
  EXPECT_EQ(statistics.bytes, registrar.bytes);
  EXPECT_EQ(statistics.count, registrar.live.size());
}

}  // namespace
}  // namespace capstan
