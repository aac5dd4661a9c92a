// SPDX-License-Identifier: Apache-2.0

// Communicators over a network that misbehaves, as seeds say: nothing is ever wrong, and every rank
// that cannot continue is told so. A failing test prints what CAPSTAN_FAULTS repeats.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>

#include "perf/measure/cell.hpp"
#include "tests/ranks/random_messages.hpp"
#include "tests/ranks/thread_world.hpp"
#include "tests/sanitizers.hpp"
#include "tests/variants_of.hpp"

namespace capstan {
namespace {

constexpr int seeds = sanitized ? 10 : 100, ranks = 3;

Settings with_faults(const std::string& faults) {
  Settings settings = bounded_settings();
  settings.chunk = Bytes{4096};
  settings.faults = faults;
  return settings;
}

std::size_t wrong_in_random_call(Communicator& world, std::mt19937& random) {
  const auto collectives = all_collectives();
  const Collective collective = collectives[random() % collectives.size()];
  const auto shapes = shapes_of(collective, world.size());
  perf::Cell cell{.collective = collective, .shape = shapes[random() % (shapes.size() - 1)]};
  if (has_root(collective)) cell.shape.root = static_cast<int>(random() % ranks);
  return perf::wrong_values(world, cell);
}

TEST(Faults, DelaysLossAndReorderingChangeNothing) {
  for (int seed = 1; seed <= seeds; ++seed) {
    const std::string faults = fmt::format(
        "seed={},delay=0.05,reorder=0.1,partial=0.1,drop=0.01,spurious=0.1,early=0.1", seed);
    SCOPED_TRACE(faults);
    on_threads(ranks, with_faults(faults), [&](Communicator& world) {
      std::mt19937 random(static_cast<unsigned>(seed));
      for (int call = 0; call < 12; ++call)
        ASSERT_EQ(wrong_in_random_call(world, random), 0u) << "call " << call;
      ASSERT_EQ(RandomMessages(world, 30, static_cast<std::uint64_t>(seed)).run(), "");
    });
  }
}

/// A rank's record of a call appears word by word, so late that its peers look closely meanwhile.
TEST(Faults, HalfARecordIsNoMismatch) {
  for (int seed = 1; seed <= (sanitized ? 2 : 5); ++seed) {
    const std::string faults = fmt::format("seed={},partial=0.5,delay_calls=20000", seed);
    SCOPED_TRACE(faults);
    on_threads(ranks, with_faults(faults), [&](Communicator& world) {
      std::mt19937 random(static_cast<unsigned>(seed));
      for (int call = 0; call < 12; ++call)
        ASSERT_EQ(wrong_in_random_call(world, random), 0u) << "call " << call;
    });
  }
}

/// Each rank either finishes all calls, with right results, or is told of a lost peer.
void end_in_peer_lost(const std::string& faults) {
  SCOPED_TRACE(faults);
  std::atomic<int> told{0};
  on_threads(ranks, with_faults(faults), [&](Communicator& world) {
    std::mt19937 random(7);
    try {
      for (int call = 0; call < 10'000; ++call)
        ASSERT_EQ(wrong_in_random_call(world, random), 0u) << "call " << call;
    } catch (const PeerLost& error) {
      EXPECT_NE(std::string{error.what()}.find("lost rank"), std::string::npos) << error.what();
      ++told;
    }
  });
  EXPECT_EQ(told, ranks);
}

/// Most of the time of each is waiting.
template <class Run>
void some_at_once(Run run) {
  constexpr int at_once = 10;
  for (int first = 1; first <= seeds; first += at_once) {
    std::vector<std::jthread> threads;
    for (int seed = first; seed < first + at_once; ++seed)
      threads.emplace_back([&run, seed] { run(seed); });
  }
}

TEST(Faults, ADeathIsToldToAll) {
  some_at_once([](int seed) {
    end_in_peer_lost(fmt::format("seed={},delay=0.02,death={}@{}", seed, seed % ranks, 3 * seed));
  });
}

TEST(Faults, ABrokenConnectionIsToldToAll) {
  some_at_once([](int seed) {
    end_in_peer_lost(fmt::format("seed={},delay=0.02,reset={}-{}@{}", seed, seed % ranks,
                                 (seed + 1) % ranks, 3 * seed));
  });
}

TEST(Faults, APlanThatMakesNoSenseIsRefused) {
  EXPECT_THROW((void)Communicator::local_world(2, with_faults("seed=1,delay=often")),
               InvalidArgument);
}

}  // namespace
}  // namespace capstan
