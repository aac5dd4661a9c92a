// SPDX-License-Identifier: Apache-2.0
#include "core/platform/memory/pinned_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "capstan/error.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;
using Handle = PinnedMemory::Handle;

const std::uint64_t page = page_size();

/// Allocates real memory, counts locks, and allows up to `limit` bytes.
class FakeLocker : public PageLocker {
 public:
  struct Account {
    std::mutex mutex;
    std::map<std::uintptr_t, AddressRange> locked;
    std::uint64_t limit = ~std::uint64_t{0};
    std::uint64_t total = 0;

    void add(AddressRange range) {
      const std::lock_guard lock{mutex};
      if (range.size().value() > limit - total) throw LimitReached("the fake system refuses");
      for (const auto& [begin, other] : locked)
        EXPECT_FALSE(other.overlaps(range)) << "CUDA refuses to lock what is locked";
      locked.emplace(range.begin, range);
      total += range.size().value();
    }
    void remove(AddressRange range) {
      const std::lock_guard lock{mutex};
      const auto found = locked.find(range.begin);
      if (found == locked.end() || !(found->second == range)) {
        ADD_FAILURE() << "unlocked what was not locked by one call";
        return;
      }
      total -= range.size().value();
      locked.erase(found);
    }
  };

  explicit FakeLocker(std::shared_ptr<Account> account) : account_(std::move(account)) {}

  std::string_view name() const override { return "fake"; }
  AddressRange allocate(Bytes size) override {
    void* memory = std::aligned_alloc(page, size.value());
    const AddressRange range = address_range(memory, size, "test");
    try {
      account_->add(range);
    } catch (...) {
      std::free(memory);
      throw;
    }
    return range;
  }
  void deallocate(AddressRange block) noexcept override {
    account_->remove(block);
    std::free(block.data());
  }
  void lock(AddressRange pages) override { account_->add(pages); }
  void unlock(AddressRange pages) noexcept override { account_->remove(pages); }

 private:
  std::shared_ptr<Account> account_;
};

struct PinnedMemoryTest : ::testing::Test {
  const void* own(std::uint64_t first_page) { return buffer.data() + aligned + first_page * page; }

  std::shared_ptr<FakeLocker::Account> account = std::make_shared<FakeLocker::Account>();
  PinnedMemory pinned{std::make_unique<FakeLocker>(account), Bytes{16 * page}};
  std::vector<std::byte> buffer = std::vector<std::byte>(33 * page);
  std::uint64_t aligned = (page - reinterpret_cast<std::uintptr_t>(buffer.data()) % page) % page;
};

TEST_F(PinnedMemoryTest, BlocksAreReused) {
  Handle first = pinned.allocate(Bytes{3 * page - 5});
  std::byte* const where = first.data();
  EXPECT_EQ(first.size(), Bytes{3 * page - 5});
  std::memset(first.data(), 1, first.size().value());
  EXPECT_EQ(pinned.total_pinned(), Bytes{3 * page});
  first.reset();
  first.reset();  // the second time nothing happens
  EXPECT_EQ(pinned.statistics().unused, Bytes{3 * page});
  const Handle second = pinned.allocate(Bytes{2 * page});
  EXPECT_EQ(second.data(), where);
  EXPECT_EQ(pinned.statistics().reuses, 1U);
  const Handle small = pinned.allocate(Bytes{1});
  EXPECT_NE(small.data(), where);
}

TEST_F(PinnedMemoryTest, ABlockTwiceAsLargeAsNeededIsNotTaken) {
  pinned.allocate(Bytes{5 * page}).reset();
  const Handle small = pinned.allocate(Bytes{2 * page});
  EXPECT_EQ(pinned.statistics().reuses, 0U);
  EXPECT_EQ(pinned.total_pinned(), Bytes{7 * page});
}

TEST_F(PinnedMemoryTest, UnusedBlocksGoLeastRecentlyUsedFirst) {
  Handle a = pinned.allocate(Bytes{2 * page}), b = pinned.allocate(Bytes{3 * page});
  const Handle c = pinned.allocate(Bytes{6 * page});
  std::byte* const where = a.data();
  b.reset();
  a.reset();
  const Handle more = pinned.allocate(Bytes{7 * page});
  EXPECT_EQ(pinned.statistics().evictions, 1U);
  EXPECT_EQ(pinned.total_pinned(), Bytes{(2 + 6 + 7) * page});
  EXPECT_EQ(pinned.allocate(Bytes{2 * page}).data(), where) << "a's block was used last";
}

TEST_F(PinnedMemoryTest, WhatIsInUseIsNeverEvicted) {
  const Handle used = pinned.allocate(Bytes{10 * page});
  std::memset(used.data(), 7, used.size().value());
  pinned.allocate(Bytes{6 * page}).reset();
  try {
    pinned.allocate(Bytes{7 * page});
    FAIL() << "17 pages of 16";
  } catch (const LimitReached& error) {
    EXPECT_THAT(error.what(), HasSubstr("28 KiB cannot be pinned: 40 KiB of at most 64 KiB"));
  }
  EXPECT_EQ(pinned.statistics().evictions, 0U) << "nothing is evicted in vain";
  EXPECT_NO_THROW(pinned.allocate(Bytes{4 * page}));
  EXPECT_EQ(used.data()[used.size().value() - 1], std::byte{7});
}

TEST_F(PinnedMemoryTest, MoreThanTheLimitIsRefusedAtOnce) {
  EXPECT_THROW(pinned.allocate(Bytes{17 * page}), LimitReached);
  EXPECT_THROW(pinned.allocate(Bytes{~std::uint64_t{0}}), LimitReached);
  EXPECT_THROW(pinned.pin(own(0), Bytes{17 * page}), LimitReached);
  EXPECT_EQ(pinned.total_pinned(), Bytes{});
  EXPECT_TRUE(account->locked.empty());
}

TEST_F(PinnedMemoryTest, TheCallersMemoryIsPinnedAsLongAsItsHandleLives) {
  {
    const Handle handle = pinned.pin(static_cast<const std::byte*>(own(0)) + 100, Bytes{page});
    EXPECT_EQ(handle.data(), static_cast<const std::byte*>(own(0)) + 100);
    EXPECT_EQ(handle.size(), Bytes{page});
    EXPECT_EQ(pinned.total_pinned(), Bytes{2 * page}) << "whole pages";
  }
  EXPECT_EQ(pinned.total_pinned(), Bytes{});
  EXPECT_TRUE(account->locked.empty());
}

TEST_F(PinnedMemoryTest, PagesOfSeveralHandlesAreLockedOnce) {
  Handle first = pinned.pin(own(0), Bytes{2 * page});
  Handle second = pinned.pin(own(1), Bytes{3 * page});
  Handle same = pinned.pin(own(1), Bytes{3 * page});
  EXPECT_EQ(pinned.total_pinned(), Bytes{4 * page});
  first.reset();
  second.reset();
  EXPECT_EQ(pinned.total_pinned(), Bytes{4 * page}) << "`same` still needs both locks";
  same.reset();
  EXPECT_EQ(pinned.total_pinned(), Bytes{});
}

TEST_F(PinnedMemoryTest, PinningPartOfABlockLocksNothing) {
  const Handle block = pinned.allocate(Bytes{4 * page});
  {
    const Handle part = pinned.pin(block.data() + page, Bytes{page});
  }
  EXPECT_EQ(account->locked.size(), 1U);
  EXPECT_EQ(pinned.total_pinned(), Bytes{4 * page});
}

TEST_F(PinnedMemoryTest, UnusedBlocksGiveWayToTheCallersMemory) {
  pinned.allocate(Bytes{10 * page}).reset();
  const Handle handle = pinned.pin(own(0), Bytes{8 * page});
  EXPECT_EQ(pinned.statistics().evictions, 1U);
  EXPECT_EQ(pinned.total_pinned(), Bytes{8 * page});
}

TEST_F(PinnedMemoryTest, TheSystemsLimitMayBeLower) {
  account->limit = 8 * page;
  pinned.allocate(Bytes{5 * page}).reset();
  const Handle handle = pinned.pin(own(0), Bytes{4 * page});
  EXPECT_EQ(pinned.statistics().evictions, 1U) << "the unused block went first";
  const Handle middle = pinned.pin(own(6), Bytes{2 * page});
  EXPECT_THROW(pinned.pin(own(3), Bytes{10 * page}), LimitReached);
  EXPECT_EQ(pinned.total_pinned(), Bytes{6 * page}) << "as if nothing had happened";
  EXPECT_EQ(account->total, 6 * page);
}

TEST_F(PinnedMemoryTest, SpansAndVectorsArePinnedAsAWhole) {
  std::vector<float> values(1000);
  EXPECT_EQ(pinned.pin(values).size(), Bytes{4000});
  EXPECT_EQ(pinned.pin(std::span{values}.first(10)).size(), Bytes{40});
}

TEST_F(PinnedMemoryTest, NothingAndNull) {
  EXPECT_TRUE(pinned.allocate(Bytes{0}).empty());
  EXPECT_TRUE(pinned.pin(nullptr, Bytes{0}).empty());
  EXPECT_TRUE(pinned.pin(own(1), Bytes{0}).empty());
  EXPECT_TRUE(account->locked.empty());
  EXPECT_EQ(pinned.total_pinned(), Bytes{0});
  EXPECT_THROW(pinned.pin(nullptr, Bytes{1}), InvalidArgument);
}

TEST_F(PinnedMemoryTest, HandlesMayOutliveTheManager) {
  Handle block, own_memory;
  {
    PinnedMemory shorter{std::make_unique<FakeLocker>(account), Bytes{16 * page}};
    block = shorter.allocate(Bytes{page});
    own_memory = shorter.pin(own(0), Bytes{page});
    shorter.allocate(Bytes{2 * page}).reset();
  }
  EXPECT_EQ(account->locked.size(), 2U) << "unused blocks went with the manager";
  block.data()[0] = std::byte{1};
  block.reset();
  own_memory.reset();
  EXPECT_TRUE(account->locked.empty());
}

TEST_F(PinnedMemoryTest, PeakIsTheMostEverPinned) {
  const Handle used = pinned.allocate(Bytes{page});
  pinned.pin(own(0), Bytes{2 * page}).reset();
  EXPECT_EQ(pinned.total_pinned(), Bytes{page});
  EXPECT_EQ(pinned.statistics().peak, Bytes{3 * page});
}

TEST_F(PinnedMemoryTest, ThreadsShareIt) {
  std::vector<std::jthread> threads;
  for (std::uint64_t thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (std::uint64_t i = 0; i < 500; ++i) {
        const Handle block = pinned.allocate(Bytes{(1 + i % 3) * page});
        std::memset(block.data(), static_cast<int>(thread), block.size().value());
        EXPECT_EQ(block.data()[block.size().value() - 1], static_cast<std::byte>(thread));
        // All four together stay below the limit with 3 + 1 pages each.
        const Handle mine = pinned.pin(own(i % 4), Bytes{page});
      }
    });
  threads.clear();
  EXPECT_EQ(pinned.statistics().pinned, pinned.statistics().unused);
}

/// Pages are locked while, and only while, a handle or an unused block has them.
TEST_F(PinnedMemoryTest, AccountsForEveryPage) {
  EXPECT_TRUE(rc::check("any sequence of calls", [this] {
    const auto steps = *rc::gen::container<std::vector<std::tuple<int, int, int>>>(
        rc::gen::tuple(rc::gen::inRange(0, 3), rc::gen::inRange(0, 24), rc::gen::inRange(1, 7)));
    std::vector<std::pair<Handle, bool>> handles;  // and whether it is the caller's memory
    for (const auto& [kind, where, count] : steps) {
      const Bytes size{static_cast<std::uint64_t>(count) * page};
      try {
        if (kind == 0) handles.emplace_back(pinned.allocate(size), false);
        if (kind == 1)
          handles.emplace_back(pinned.pin(own(static_cast<std::uint64_t>(where)), size), true);
      } catch (const LimitReached&) {
      }
      if (kind == 2 && !handles.empty())
        handles.erase(handles.begin() + where % static_cast<int>(handles.size()));
      const auto statistics = pinned.statistics();
      RC_ASSERT(statistics.pinned == Bytes{account->total});
      RC_ASSERT(statistics.pinned <= pinned.limit());
      for (const auto& [handle, callers] : handles)
        for (std::uint64_t at = 0; at < handle.size().value(); at += page) {
          const auto byte = reinterpret_cast<std::uintptr_t>(handle.data() + at);
          RC_ASSERT(std::ranges::any_of(account->locked, [&](const auto& one) {
            return one.second.contains({byte, byte + 1});
          }));
        }
    }
    handles.clear();
    RC_ASSERT(pinned.statistics().pinned == pinned.statistics().unused);
  }));
}

}  // namespace
}  // namespace capstan
