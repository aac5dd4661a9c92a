// SPDX-License-Identifier: Apache-2.0

// Communicator::allocate among threads: buffers of both kinds in every collective.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "tests/buffer_kinds.hpp"
#include "tests/ranks/thread_world.hpp"

namespace capstan {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

class SharedBuffers : public ::testing::TestWithParam<Collective> {};

TEST_P(SharedBuffers, AreAsGoodAsOthers) {
  auto settings = bounded_settings();
  settings.chunk = Bytes{16 << 10};
  for (const int hosts : {0, 2}) {
    settings.virtual_hosts = hosts;
    on_threads(3, settings, [&](Communicator& world) {
      EXPECT_EQ(trouble_with_kinds(world, GetParam()), "") << hosts << " hosts";
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, SharedBuffers, ::testing::ValuesIn(all_collectives()),
                         [](const auto& test) { return std::string{name_of(test.param)}; });

TEST(Allocate, GivesZerosOfAnyNumber) {
  on_threads(3, bounded_settings(), [](Communicator& world) {
    const auto own = static_cast<std::size_t>(world.rank());
    auto none = world.allocate<double>(0);
    EXPECT_EQ(none.size(), 0u);
    auto some = world.allocate<std::int32_t>(own * 100'000);
    ASSERT_EQ(some.size(), own * 100'000);
    EXPECT_THAT(some, Each(0));
    world.broadcast(none, 1);
    SharedBuffer<std::int32_t> other = std::move(some);
    EXPECT_EQ(other.size(), own * 100'000);
    std::iota(other.begin(), other.end(), 0);
    EXPECT_EQ(own == 0 ? 99'999 : std::as_const(other)[99'999], 99'999);
  });
}

/// For bindings, which know a type at run time only.
TEST(Allocate, GivesUntypedMemoryThatOutlivesItsCommunicator) {
  on_threads(2, bounded_settings(), [](Communicator& world) {
    std::shared_ptr<std::byte> memory, none;
    {
      auto group = world.split(0);
      memory = group->allocate_bytes(80'000);
      none = group->allocate_bytes(0);
    }
    EXPECT_EQ(none, nullptr);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64, 0u);
    Request request;
    request.collective = Collective::all_reduce;
    request.type = DataType::i64;
    request.input = request.output = memory.get();
    request.input_count = request.output_count = Elements{10'000};
    const std::span<std::int64_t> numbers{reinterpret_cast<std::int64_t*>(memory.get()), 10'000};
    std::ranges::fill(numbers, world.rank() + 1);
    world.run(request);
    EXPECT_THAT(numbers, Each(3));
  });
}

TEST(Allocate, FailsOnAllRanksOrOnNone) {
  auto settings = bounded_settings();
  settings.buffer_limit = Bytes{1 << 20};
  on_threads(3, settings, [](Communicator& world) {
    const bool greedy = world.rank() == 1;
    try {
      (void)world.allocate<float>(greedy ? 300'000 : 10);
      ADD_FAILURE() << "rank 1 has exceeded its limit";
    } catch (const LimitReached& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank 1"));
      EXPECT_THAT(error.what(), HasSubstr(greedy ? "CAPSTAN_BUFFER_LIMIT" : "see its error"));
    }
    EXPECT_THROW((void)world.allocate<double>(std::numeric_limits<std::size_t>::max() / 2),
                 LimitReached);
    std::vector<int> ones(10, 1);
    world.all_reduce(ones);  // continues
    EXPECT_THAT(ones, Each(3));
    auto fits = world.allocate<float>(250'000);  // nothing is left of what failed
    EXPECT_EQ(fits.size(), 250'000u);
  });
}

TEST(Allocate, OutlivesTheCommunicator) {
  std::optional<SharedBuffer<int>> buffers[2];
  on_threads(2, bounded_settings(), [&](Communicator& world) {
    auto& own = buffers[world.rank()];
    own.emplace(world.allocate<int>(100'000));
    std::fill(own->begin(), own->end(), 1);
    world.all_reduce(*own);
  });
  for (auto& buffer : buffers) {
    EXPECT_THAT(*buffer, Each(2));
    (*buffer)[0] = 5;
  }
}

TEST(Allocate, IsNoCallLikeOthers) {
  auto world = Communicator::local_world(2, bounded_settings());
  const auto error_of = [](auto call) {
    try {
      call();
    } catch (const Mismatch& error) {
      return std::string{error.what()};
    }
    return std::string{};
  };
  std::string other;
  std::vector<int> data(10);
  std::jthread thread{[&] { other = error_of([&] { world[1].all_reduce(data); }); }};
  const std::string own = error_of([&] { (void)world[0].allocate<int>(5); });
  thread.join();
  for (const std::string& text : {own, other}) {
    EXPECT_THAT(text, HasSubstr("called allocate()"));
    EXPECT_THAT(text, HasSubstr("all_reduce(10 x i32, sum)"));
  }
}

/// With a progress thread, in the background and cancelled.
TEST(Allocate, WorksInTheBackground) {
  for (const bool thread : {false, true}) {
    auto settings = bounded_settings();
    settings.progress_thread = thread;
    on_threads(3, settings, [](Communicator& world) {
      auto data = world.allocate<int>(200'000);
      for (int round = 0; round < 10; ++round) {
        std::fill(data.begin(), data.end(), 1);
        Work work = world.start_all_reduce(data);
        if (world.rank() == round % 3 && work.cancel()) continue;
        work.wait();
        ASSERT_EQ(data[199'999], 3);
      }
      world.barrier();  // what was cancelled here is still done for the others
    });
  }
}

}  // namespace
}  // namespace capstan
