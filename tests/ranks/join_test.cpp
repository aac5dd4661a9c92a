// SPDX-License-Identifier: Apache-2.0

// Worlds that a program sets up itself, with a unique id.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "capstan/communicator.hpp"
#include "core/schedule/lowering/protocol.hpp"
#include "core/schedule/lowering/slots.hpp"
#include "tests/ranks/thread_world.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

TEST(Join, RanksMeetThroughAUniqueId) {
  constexpr int ranks = 3;
  const UniqueId id = unique_id_from_string(to_string(create_unique_id()));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      try {
        Communicator world = Communicator::join(id, rank, ranks);
        EXPECT_EQ(world.rank(), rank);
        EXPECT_EQ(world.size(), ranks);
        std::vector<int> data(1000, rank + 1);
        world.all_reduce(std::span{data});
        EXPECT_EQ(data, std::vector<int>(1000, 6));
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    });
}

/// The thread that serves the id stays with its process. The child waits for no lock that the
/// thread held at the fork.
TEST(Join, AProcessThatIsForkedAfterTheIdWasMadeJoins) {
  if (sanitized)
    GTEST_SKIP() << "the sanitizers' own locks do not survive a fork beside other threads";
  for (int round = 0; round < 20; ++round) {
    const UniqueId id = create_unique_id();
    const pid_t child = ::fork();
    const auto take_part = [&](int rank) {
      Communicator world = Communicator::join(id, rank, 2);
      std::vector<int> data(10, 1);
      world.all_reduce(data);
      world.barrier();
      return data.back() == 2;
    };
    if (child == 0) {
      ::alarm(60);  // a hang is a failed test
      ::_exit(take_part(1) ? 0 : 1);
    }
    EXPECT_TRUE(take_part(0));
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(Join, ARankOutsideTheWorldIsRefused) {
  const UniqueId id = create_unique_id();
  EXPECT_THROW((void)Communicator::join(id, 2, 2), InvalidArgument);
  EXPECT_THROW((void)Communicator::join(id, -1, 2), InvalidArgument);
  EXPECT_THROW((void)Communicator::join(id, 0, 0), InvalidArgument);
}

TEST(Join, ADamagedIdIsRefused) {
  UniqueId id = create_unique_id();
  id.bytes[40] ^= std::byte{1};
  EXPECT_THROW((void)Communicator::join(id, 0, 1), InvalidArgument);
}

TEST(Join, ARankThatNeverComesIsNamed) {
  Settings settings;
  settings.join_timeout = std::chrono::milliseconds{300};
  try {
    (void)Communicator::join(create_unique_id(), 0, 2, settings);
    FAIL();
  } catch (const BootstrapError& error) {
    EXPECT_NE(std::string{error.what()}.find("rank 1"), std::string::npos) << error.what();
  }
}

TEST(LocalWorld, NeedsARank) {
  EXPECT_THROW((void)Communicator::local_world(0), InvalidArgument);
}

TEST(LocalWorld, UnequalSpansAreRefused) {
  auto world = Communicator::local_world(1);
  std::vector<float> in(3), out(4);
  EXPECT_THROW(world[0].all_reduce(std::span<const float>{in}, std::span{out}), InvalidArgument);
}

TEST(LocalWorld, AMismatchIsAnErrorOnEveryRankAndStaysOne) {
  auto world = Communicator::local_world(3);
  std::vector<std::jthread> threads;
  for (auto& communicator : world)
    threads.emplace_back([&] {
      std::vector<float> data(communicator.rank() == 1 ? 8 : 9);
      EXPECT_THROW(communicator.all_reduce(std::span{data}), Mismatch);
      EXPECT_THROW(communicator.all_reduce(std::span{data}), Mismatch);
    });
}

/// A rank may run ahead as far as there are slots for small calls of each kind.
TEST(LocalWorld, AMismatchIsFoundHoweverFarTheSenderIsAhead) {
  Settings settings = bounded_settings();
  settings.algorithm = "broadcast:0-16:flat/inline_packets,16-inf:flat/staged";
  constexpr auto slots = standard_slots.count;
  constexpr int packets = slots.tiny_packets, tiny = slots.tiny_staging,
                all = packets + tiny + slots.small_staging;
  std::atomic<int> sent{0};
  on_threads(2, settings, [&](Communicator& world) {
    std::vector<float> data(1500);
    const auto call = [&](std::size_t count) { world.broadcast(std::span{data}.first(count), 0); };
    if (world.rank() == 0) {
      for (; sent < all; ++sent) call(sent < packets ? 2 : sent < packets + tiny ? 100 : 1500);
      EXPECT_THROW(for (int i = 0; i < all; ++i) call(2), Mismatch);
    } else {
      const auto late = std::chrono::steady_clock::now() + std::chrono::seconds{60};
      while (sent < all && std::chrono::steady_clock::now() < late) std::this_thread::yield();
      ASSERT_EQ(sent, all);
      EXPECT_THROW(for (int i = 0; i < all; ++i) call(3), Mismatch);
    }
  });
}

/// The data that ranks compare hold the algorithm, the protocol and the blocks: two ranks that
/// decide otherwise get an error, and never hang.
TEST(Join, RanksThatDecideOtherwiseAreToldHow) {
  const UniqueId id = create_unique_id();
  const auto complaint = [&](int rank, const char* rule) {
    Settings settings = bounded_settings();
    settings.algorithm = rule;
    auto world = Communicator::join(id, rank, 2, settings);
    std::vector<float> data(8);
    try {
      world.all_reduce(std::span{data});
    } catch (const Mismatch& error) {
      return std::string{error.what()};
    }
    return std::string{"none"};
  };
  std::string first, second;
  {
    const std::jthread thread{[&] { first = complaint(0, "all_reduce:direct/staged"); }};
    second = complaint(1, "all_reduce:direct/inline_packets");
  }
  for (const std::string& text : {first, second}) {
    EXPECT_NE(text.find("by direct " + std::string{name_of(Protocol::staged)}), text.npos) << text;
    EXPECT_NE(text.find("by direct " + std::string{name_of(Protocol::inline_packets)}), text.npos)
        << text;
  }
}

}  // namespace
}  // namespace capstan
