// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "core/platform/memory/registration/memory_map.hpp"
#include "core/platform/memory/registration/registration_cache.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "tests/threads/registration_helpers.hpp"

// Memory that is really unmapped. The tests hold with and without userfaultfd; the monitor only
// decides whether registrations are cached.

namespace capstan {
namespace {

using namespace testing_memory;

constexpr std::size_t length = 16 * page;

/// The stamp in a page at its registration identifies the memory.
class StampRegistrar : public FakeRegistrar {
 public:
  MemoryKeys register_memory(AddressRange range) override {
    MemoryKeys keys = FakeRegistrar::register_memory(range);
    std::memcpy(&keys.remote, range.data(), sizeof keys.remote);
    return keys;
  }
};

std::byte* map_at(void* address, std::size_t size, int more_flags = 0) {
  void* memory = ::mmap(address, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | more_flags, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

void stamp(std::byte* memory, std::uint64_t value) {
  std::memcpy(memory, &value, sizeof value);
}

/// Memory below free addresses, which the kernel gives to other mappings first, so that addresses
/// that the test unmaps for a moment stay free.
std::byte* map_out_of_the_way() {
  constexpr std::size_t size = 256 << 20;
  std::byte* const above = map_at(nullptr, size);
  std::vector<std::byte*> higher;
  std::byte* memory = map_at(nullptr, length);
  while (memory > above && higher.size() < 1000) {
    higher.push_back(memory);
    memory = map_at(nullptr, length);
  }
  for (std::byte* one : higher) ::munmap(one, length);
  ::munmap(above, size);
  return memory;
}

class Unmapping : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam() && !monitor_->active()) GTEST_SKIP() << monitor_->description();
    memory_ = map_out_of_the_way();
    ASSERT_NE(memory_, nullptr);
    stamp(memory_, 1);
    ASSERT_EQ(registered(), 1U);
    ASSERT_EQ(registered(), 1U);
    ASSERT_EQ(cache_.statistics().hits, GetParam() ? 1U : 0U);
  }
  void TearDown() override {
    if (memory_ != nullptr) ::munmap(memory_, length);
  }

  void map_again() {
    std::byte* const wanted = std::exchange(memory_, nullptr);
    ASSERT_EQ(map_at(wanted, length, MAP_FIXED_NOREPLACE), wanted) << "somebody was quicker";
    memory_ = wanted;
  }

  /// The stamp that the memory had when it was registered.
  std::uint64_t registered() { return cache_.acquire(memory_, Bytes{length}).keys().remote; }

  std::shared_ptr<MappingMonitor> monitor_ =
      GetParam() ? MappingMonitor::shared() : MappingMonitor::none("not in this test");
  StampRegistrar registrar_;
  RegistrationCache cache_{registrar_, {}, monitor_};
  std::byte* memory_ = nullptr;
};

TEST_P(Unmapping, OtherMemoryAtTheSameAddress) {
  for (std::uint64_t round = 2; round < 50; ++round) {
    ASSERT_EQ(::munmap(memory_, length), 0);
    ASSERT_NO_FATAL_FAILURE(map_again());
    stamp(memory_, round);
    EXPECT_EQ(registered(), round);
    EXPECT_EQ(registered(), round);
  }
  EXPECT_EQ(cache_.statistics().invalidations, GetParam() ? 48U : 0U);
  EXPECT_LE(registrar_.live.size(), 1U);
}

TEST_P(Unmapping, MappedOver) {
  ASSERT_EQ(map_at(memory_, length, MAP_FIXED), memory_);
  stamp(memory_, 2);
  EXPECT_EQ(registered(), 2U);
}

TEST_P(Unmapping, OnePageMappedOver) {
  ASSERT_NE(map_at(memory_ + 5 * page, page, MAP_FIXED), nullptr);
  stamp(memory_, 2);  // of the same page: what counts is that the range is registered anew
  EXPECT_EQ(registered(), 2U);
}

TEST_P(Unmapping, MovedAway) {
  std::byte* target = map_at(nullptr, length);
  ASSERT_EQ(::mremap(memory_, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, target), target);
  ASSERT_NO_FATAL_FAILURE(map_again());
  stamp(memory_, 2);
  EXPECT_EQ(registered(), 2U);
  ::munmap(target, length);
}

#ifdef MREMAP_DONTUNMAP
TEST_P(Unmapping, MovedAwayButStillMapped) {
  void* target = ::mremap(memory_, length, length, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, nullptr);
  if (target == MAP_FAILED) GTEST_SKIP() << "MREMAP_DONTUNMAP needs Linux 5.7";
  stamp(memory_, 2);
  EXPECT_EQ(registered(), 2U);
  ::munmap(target, length);
}
#endif

TEST_P(Unmapping, MovedOver) {
  std::byte* source = map_at(nullptr, length);
  stamp(source, 2);
  ASSERT_EQ(::mremap(source, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, memory_), memory_);
  EXPECT_EQ(registered(), 2U);
}

TEST_P(Unmapping, ShrunkAndGrownAgain) {
  ASSERT_EQ(::mremap(memory_, length, page, 0), memory_);
  ASSERT_EQ(::mremap(memory_, page, length, 0), memory_) << "nobody else maps that quickly";
  stamp(memory_, 2);
  EXPECT_EQ(registered(), 2U);
}

TEST_P(Unmapping, GivenBackToTheSystem) {
  std::uint64_t round = 2;
  for (const int advice : {MADV_DONTNEED, MADV_FREE}) {
    ASSERT_EQ(::madvise(memory_ + 3 * page, page, advice), 0);
    stamp(memory_, round);
    EXPECT_EQ(registered(), round++);
  }
}

TEST_P(Unmapping, MoreChangesThanTheLogHolds) {
  const std::size_t size = 3000 * page;
  std::byte* large = map_at(nullptr, size);
  stamp(large, 1);
  EXPECT_EQ(cache_.acquire(large, Bytes{size}).keys().remote, 1U);
  for (std::size_t i = 0; i < 3000; ++i) ASSERT_EQ(::madvise(large + i * page, page, MADV_FREE), 0);
  stamp(large, 2);
  EXPECT_EQ(cache_.acquire(large, Bytes{size}).keys().remote, 2U);
  ::munmap(large, size);
}

TEST_P(Unmapping, TheHeapShrinks) {
  // malloc takes what it needs meanwhile from here, not from the top of the heap.
  ::mallopt(M_MMAP_THRESHOLD, 16 << 20);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  void* volatile room = std::malloc(4 << 20);
  std::free(room);
  std::byte* heap = static_cast<std::byte*>(::sbrk(0));
  heap += page - reinterpret_cast<std::uintptr_t>(heap) % page;
  if (::brk(heap + length) != 0) GTEST_SKIP() << "the heap cannot be moved here";
  for (std::uint64_t round = 1; round < 5; ++round) {
    stamp(heap, round);
    EXPECT_EQ(cache_.acquire(heap, Bytes{length}).keys().remote, round);
    if (::sbrk(0) != heap + length) GTEST_SKIP() << "malloc has put something above";
    ASSERT_EQ(::brk(heap), 0);
    ASSERT_EQ(::brk(heap + length), 0);
  }
}

TEST_P(Unmapping, UsedMemoryStaysRegisteredUntilItIsNot) {
  auto lease = cache_.acquire(memory_, Bytes{length});
  ASSERT_EQ(map_at(memory_ + length / 2, length / 2, MAP_FIXED), memory_ + length / 2);
  cache_.invalidate(memory_, Bytes{length});
  EXPECT_EQ(registrar_.live.count(lease.keys().local), 1U);
  const auto number = lease.keys().local;
  lease.reset();
  EXPECT_EQ(registrar_.live.count(number), 0U);
}

TEST_P(Unmapping, BuffersOfMalloc) {
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  for (std::uint64_t round = 1; round < 30; ++round) {
    auto* buffer = static_cast<std::byte*>(std::malloc(8 << 20));  // a mapping of its own
    std::byte* inside = buffer + page - reinterpret_cast<std::uintptr_t>(buffer) % page;
    const AddressRange inside_range = address_range(inside, Bytes{page}, "test");
    stamp(inside, round);
    EXPECT_EQ(cache_.acquire(inside, Bytes{page}).keys().remote, round);
    std::free(buffer);
    if (is_private_anonymous(inside_range)) GTEST_SKIP() << "this malloc keeps freed memory";
  }
}

INSTANTIATE_TEST_SUITE_P(Monitor, Unmapping, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "Watched" : "Unwatched"; });

/// Other processes can truncate shared memory, so that its registrations are not cached.
TEST(MappingMonitor, MemoryOfFilesIsNotWatched) {
  const auto monitor = MappingMonitor::shared();
  if (!monitor->active()) GTEST_SKIP() << monitor->description();
  const FileDescriptor file{::memfd_create("capstan", MFD_CLOEXEC)};
  ASSERT_EQ(::ftruncate(file.get(), length), 0);
  for (const int flags : {MAP_SHARED, MAP_PRIVATE}) {
    void* memory = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, flags, file.get(), 0);
    EXPECT_FALSE(monitor->watch(address_range(memory, Bytes{length}, "test")));
    ::munmap(memory, length);
  }
  std::byte* holed = map_at(nullptr, length);
  ::munmap(holed + page, page);
  EXPECT_FALSE(monitor->watch(address_range(holed, Bytes{length}, "test")));
  ::munmap(holed, page);  // other mappings may lie in the hole by now
  ::munmap(holed + 2 * page, length - 2 * page);
}

TEST(MappingMonitor, AllCachesShareIt) {
  if (!MappingMonitor::shared()->active()) GTEST_SKIP() << MappingMonitor::shared()->description();
  StampRegistrar registrar;
  RegistrationCache one{registrar, {}}, other{registrar, {}};
  std::byte* memory = map_at(nullptr, length);
  for (std::uint64_t round = 1; round < 10; ++round) {
    stamp(memory, round);
    for (auto* cache : {&one, &other}) {
      EXPECT_EQ(cache->acquire(memory, Bytes{length}).keys().remote, round);
      EXPECT_EQ(cache->acquire(memory, Bytes{length}).keys().remote, round);
    }
    ASSERT_EQ(map_at(memory, length, MAP_FIXED), memory);
  }
  EXPECT_EQ(one.statistics().hits, 9U);
  EXPECT_EQ(other.statistics().hits, 9U);
  ::munmap(memory, length);
}

TEST(MappingMonitor, EndsWithTheLastCache) {
  std::byte* memory = map_at(nullptr, length);
  {
    const auto monitor = MappingMonitor::open();
    monitor->watch(address_range(memory, Bytes{length}, "test"));
  }
  EXPECT_EQ(::munmap(memory, length), 0) << "nobody is left to wait for";
}

TEST(MappingMonitor, AForkedChildUnmapsAndExitsFreely) {
  auto monitor = MappingMonitor::open();
  std::byte* memory = map_at(nullptr, length);
  monitor->watch(address_range(memory, Bytes{length}, "test"));
  const pid_t child = ::fork();
  if (child == 0) {
    ::munmap(memory, length);
    monitor.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::munmap(memory, length);
}

/// Without any privilege, as for users.
TEST(MappingMonitor, NeedsNoPrivilege) {
  if (::getuid() != 0) GTEST_SKIP() << "this is not root, so the other tests have shown it";
  if (!MappingMonitor::shared()->active()) GTEST_SKIP() << MappingMonitor::shared()->description();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::setuid(65534) == 0 && MappingMonitor::open()->active() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

/// Threads unmap and map concurrently, so that one gets the addresses that another has just
/// unmapped, even before the other's munmap has returned.
TEST(MappingMonitor, ThreadsThatReuseEachOthersAddresses) {
  StampRegistrar registrar;
  RegistrationCache cache{registrar, {}};
  std::atomic<std::uint64_t> next{1}, stale{0};
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        std::byte* memory = map_at(nullptr, length);
        const auto mine = next++;
        stamp(memory, mine);
        for (int again = 0; again < 2; ++again) {
          const auto lease = cache.acquire(memory, Bytes{length});
          if (lease.range().data() != memory || lease.keys().remote != mine) ++stale;
        }
        ::munmap(memory, length);
      }
    });
  threads.clear();
  EXPECT_EQ(stale, 0U);
}

}  // namespace
}  // namespace capstan
