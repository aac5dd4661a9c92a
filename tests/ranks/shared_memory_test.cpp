// SPDX-License-Identifier: Apache-2.0

// Memory that ranks on one host see of each other: what it is made of, and how it is found.

#include "core/engine/control/shared_memory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <thread>

#include "capstan/error.hpp"

namespace capstan::shared {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Bytes plenty{std::uint64_t{1} << 30};

View view_of(const Allocation& allocation, std::uint64_t token) {
  return View::of(::getpid(), allocation.descriptor(), Bytes{allocation.bytes().size()}, token);
}

std::size_t mappings_of_memfds() {
  std::ifstream maps{"/proc/self/maps"};
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("memfd:capstan") != std::string::npos;
  return count;
}

TEST(Allocation, IsZerosThatAViewShows) {
  for (const std::size_t size : {1u, 4096u, 5000u, (2u << 20), (5u << 20) + 17}) {
    const Allocation own{Bytes{size}, Kind::shared};
    const View view = view_of(own, own.token());
    ASSERT_TRUE(view.valid());
    ASSERT_EQ(view.bytes().size(), size);
    for (const std::byte b : view.bytes()) ASSERT_EQ(b, std::byte{0});
    own.bytes().back() = std::byte{42};
    own.bytes().front() = std::byte{43};
    EXPECT_EQ(view.bytes().front(), std::byte{43});
    EXPECT_EQ(view.bytes().back(), size == 1 ? std::byte{43} : std::byte{42});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.bytes().data()) %
                  (size < (2u << 20) ? 4096 : 2u << 20),
              0u);
  }
}

TEST(Allocation, IsBackedWhenItIsMade) {
  const Allocation own{Bytes{8 << 20}, Kind::shared};
  struct stat status{};
  ASSERT_EQ(::fstat(own.descriptor(), &status), 0);
  EXPECT_GE(status.st_blocks * 512, 8 << 20);
}

TEST(View, IsOfTheRightMemoryOnly) {
  const Allocation own{Bytes{10000}, Kind::shared};
  EXPECT_FALSE(view_of(own, own.token() + 1).valid());
  EXPECT_FALSE(View::of(::getpid(), own.descriptor(), Bytes{100000}, own.token()).valid());
  EXPECT_FALSE(View::of(::getpid(), STDERR_FILENO, Bytes{10000}, own.token()).valid());
  EXPECT_FALSE(View::of(::getpid(), 1 << 20, Bytes{10000}, own.token()).valid());
  EXPECT_FALSE(View::of(1 << 30, own.descriptor(), Bytes{10000}, own.token()).valid());
}

TEST(View, OutlivesItsOwnerWithoutHoldingMemory) {
  auto own = std::make_unique<Allocation>(Bytes{3 << 20}, Kind::shared);
  const int copy = ::dup(own->descriptor());
  const View view = view_of(*own, own->token());
  std::memset(own->bytes().data(), 1, own->bytes().size());
  EXPECT_FALSE(view.is_free());
  own.reset();
  EXPECT_TRUE(view.is_free());
  struct stat status{};
  ASSERT_EQ(::fstat(copy, &status), 0);
  EXPECT_LE(status.st_blocks * 512, 16 << 10);  // what tells that it is free
  ::close(copy);
  for (const std::byte b : view.bytes()) ASSERT_EQ(b, std::byte{0});  // and no SIGBUS
}

TEST(Allocation, IsNotGivenBackByAForkedChild) {
  auto own = std::make_unique<Allocation>(Bytes{5000}, Kind::shared);
  const View view = view_of(*own, own->token());
  own->bytes()[7] = std::byte{7};
  const pid_t child = ::fork();
  if (child == 0) {
    own.reset();
    ::_exit(0);
  }
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(view.is_free());
  EXPECT_EQ(own->bytes()[7], std::byte{7});
}

class Rank {
 public:
  SharedMemory::Made make(std::size_t size) { return memory_->make(Bytes{size}, Kind::shared); }
  SharedMemory& operator*() { return *memory_; }
  SharedMemory* operator->() { return memory_.get(); }

 private:
  std::shared_ptr<SharedMemory> memory_ = std::make_shared<SharedMemory>(plenty);
};

SharedMemory::Announcement announcement_of(const SharedMemory::Made& made) {
  return {.address = reinterpret_cast<std::uint64_t>(made.allocation->bytes().data()),
          .size = made.allocation->bytes().size(),
          .token = made.allocation->token(),
          .id = made.id,
          .process = ::getpid(),
          .descriptor = made.allocation->descriptor()};
}

TEST(SharedMemory, KnowsWhatIsInsideAnAllocation) {
  Rank rank;
  const auto made = rank.make(10'000);
  const std::byte* const begin = made.allocation->bytes().data();
  EXPECT_EQ(rank->id_of(begin, Bytes{1}), 0u) << "nobody has been told of it";
  rank->announce(made, {3, 1});
  EXPECT_EQ(rank->id_of(begin, Bytes{10'000}), made.id);
  EXPECT_EQ(rank->id_of(begin + 9'999, Bytes{1}), made.id);
  EXPECT_EQ(rank->id_of(begin + 1, Bytes{10'000}), 0u);
  EXPECT_EQ(rank->id_of(begin + 10'000, Bytes{1}), 0u);
  EXPECT_EQ(rank->id_of(begin - 1, Bytes{2}), 0u);
  EXPECT_EQ(rank->id_of(begin, Bytes{0}), 0u);
  EXPECT_EQ(rank->id_of(nullptr, Bytes{1}), 0u);
  EXPECT_TRUE(rank->mapped_by({1, 3}, begin, Bytes{5}));
  EXPECT_TRUE(rank->mapped_by({3}, begin, Bytes{5}));
  EXPECT_FALSE(rank->mapped_by({1, 2}, begin, Bytes{5}));
  EXPECT_FALSE(rank->mapped_by({1}, &rank, Bytes{1}));
  EXPECT_TRUE(rank->mapped_by({1}, nullptr, Bytes{0}));
}

TEST(SharedMemory, TranslatesAddressesOfPeers) {
  Rank owner, peer;
  const auto made = owner.make(10'000);
  ASSERT_TRUE(peer->add_view(7, announcement_of(made)));
  made.allocation->bytes()[100] = std::byte{9};
  const auto address = announcement_of(made).address;
  const std::byte* const seen = peer->view(7, made.id, address + 100, Bytes{9'900});
  ASSERT_NE(seen, nullptr);
  EXPECT_EQ(*seen, std::byte{9});
  EXPECT_EQ(peer->view(7, made.id, address + 100, Bytes{9'901}), nullptr);
  EXPECT_EQ(peer->view(7, made.id, address - 1, Bytes{1}), nullptr);
  EXPECT_EQ(peer->view(7, made.id + 1, address, Bytes{1}), nullptr);
  EXPECT_EQ(peer->view(6, made.id, address, Bytes{1}), nullptr);
  EXPECT_EQ(peer->view(7, 0, address, Bytes{1}), nullptr);
}

/// Addresses come again, allocations do not.
TEST(SharedMemory, NeverTakesALaterAllocationForAnEarlierOne) {
  Rank owner, peer;
  std::vector<AllocationId> ids;
  for (int i = 0; i < 50; ++i) {
    const auto made = owner.make(1 << 20);
    owner->announce(made, {0});
    ASSERT_TRUE(peer->add_view(0, announcement_of(made)));
    const auto address = announcement_of(made).address;
    for (const AllocationId id : ids) ASSERT_NE(id, made.id);
    made.allocation->bytes()[0] = static_cast<std::byte>(i);
    ASSERT_EQ(*peer->view(0, made.id, address, Bytes{1}), static_cast<std::byte>(i));
    ids.push_back(made.id);
  }
}

TEST(SharedMemory, LetsGoOfWhatItsOwnerHasGivenBack) {
  const std::size_t before = mappings_of_memfds();
  Rank owner, peer;
  auto kept = owner.make(5'000);
  for (int i = 0; i < 20; ++i) {
    const auto made = owner.make(5'000);
    ASSERT_TRUE(peer->add_view(0, announcement_of(made)));
  }
  ASSERT_TRUE(peer->add_view(0, announcement_of(kept)));
  EXPECT_EQ(peer->views(), 21u);
  peer->drop_free_views();
  EXPECT_EQ(peer->views(), 1u);
  kept = {};
  peer->drop_free_views();
  EXPECT_EQ(peer->views(), 0u);
  EXPECT_EQ(mappings_of_memfds(), before);
}

TEST(SharedMemory, ForgetsWhatIsFreed) {
  Rank rank;
  auto made = rank.make(5'000);
  const void* const begin = made.allocation->bytes().data();
  rank->announce(made, {0});
  EXPECT_NE(rank->id_of(begin, Bytes{1}), 0u);
  made = {};
  EXPECT_EQ(rank->id_of(begin, Bytes{1}), 0u);
}

TEST(SharedMemory, StaysBelowItsLimit) {
  const auto memory = std::make_shared<SharedMemory>(Bytes{100'000});
  auto made = memory->make(Bytes{60'000}, Kind::shared);
  EXPECT_THAT(
      [&] { memory->make(Bytes{60'000}, Kind::own); },
      ThrowsMessage<LimitReached>(AllOf(HasSubstr("60000 bytes are in use of at most 100000"),
                                        HasSubstr("CAPSTAN_BUFFER_LIMIT"))));
  EXPECT_THROW(memory->make(Bytes{~std::uint64_t{0}}, Kind::shared), LimitReached);
  made = {};
  EXPECT_NO_THROW(made = memory->make(Bytes{60'000}, Kind::own));
}

/// Buffers are looked up by one thread while others make and free theirs.
TEST(SharedMemory, IsUsedByManyThreads) {
  const auto memory = std::make_shared<SharedMemory>(plenty);
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random{t};
      for (int i = 0; i < 200; ++i) {
        const auto made = memory->make(Bytes{1 + random() % 20'000}, Kind::shared);
        memory->announce(made, {static_cast<int>(t)});
        const auto bytes = made.allocation->bytes();
        EXPECT_EQ(memory->id_of(bytes.data(), Bytes{bytes.size()}), made.id);
        EXPECT_TRUE(memory->mapped_by({static_cast<int>(t)}, bytes.data(), Bytes{1}));
      }
    });
}

}  // namespace
}  // namespace capstan::shared
