// SPDX-License-Identifier: Apache-2.0

// Every algorithm of every collective runs on threads: all types and operations, in place and not,
// every root, counts that do not divide, in packets, in one block and in streams.

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "algorithms/registry.hpp"
#include "perf/measure/cell.hpp"
#include "tests/sanitizers.hpp"
#include "tests/variants_of.hpp"

namespace capstan {
namespace {

using perf::Cell;

/// Runs `body(communicator)` on one thread per rank; the first error of each is a failure.
template <class Body>
void on_threads(int ranks, const Settings& settings, Body body) {
  auto world = Communicator::local_world(ranks, settings);
  std::vector<std::jthread> threads;
  for (auto& communicator : world)
    threads.emplace_back([&] {
      try {
        body(communicator);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    });
}

/// One algorithm in one protocol.
struct Variant {
  const Algorithm* algorithm;
  std::string rule;
  Elements longest;  // that runs so
};

Settings settings_for(const Variant& variant) {
  Settings settings;
  settings.timeout = std::chrono::seconds{60};
  settings.algorithm = std::string{name_of(variant.algorithm->collective)} + ":" + variant.rule;
  settings.chunk = Bytes{4096};  // long operations are cut into many blocks
  return settings;
}

std::string describe(const Communicator& world, const Cell& cell) {
  std::string text = "rank " + std::to_string(world.rank()) + " of " +
                     std::to_string(world.size()) + ", " + std::string{name_of(cell.type)} + ", " +
                     std::string{name_of(cell.op)} + ", count " +
                     std::to_string(cell.shape.count.value()) + ", root " +
                     std::to_string(cell.shape.root) + (cell.in_place ? ", in place" : "");
  for (const Elements count : cell.shape.counts) text += " " + std::to_string(count.value());
  return text;
}

void expect_right(Communicator& world, Cell cell) {
  for (const bool in_place : {false, true}) {
    cell.in_place = in_place && cell.collective != Collective::all_to_all_v;
    ASSERT_EQ(perf::wrong_values(world, cell), 0u) << describe(world, cell);
  }
}

class EveryAlgorithm : public ::testing::TestWithParam<Variant> {};

constexpr std::array few_types{DataType::i8, DataType::bf16, DataType::f32, DataType::c128};
/// No race depends on the type.
const auto types = thread_sanitized ? std::span{few_types}.first(1)
                   : sanitized      ? std::span<const DataType>{few_types}
                                    : all_data_types();

void is_right_on_threads(const Variant& variant, int ranks) {
  const Algorithm& algorithm = *variant.algorithm;
  on_threads(ranks, settings_for(variant), [&](Communicator& world) {
    for (Shape& shape : shapes_of(algorithm.collective, ranks)) {
      if (shape.count > variant.longest) continue;
      for (int root = 0; root < (has_root(algorithm.collective) ? ranks : 1); ++root) {
        shape.root = root;
        expect_right(world, {.collective = algorithm.collective, .shape = shape});
      }
    }
  });
}

TEST_P(EveryAlgorithm, IsRightOnThreads) {
  for (const int ranks : {1, 2, 3, 4}) is_right_on_threads(GetParam(), ranks);
}
TEST_P(EveryAlgorithm, IsRightOnManyThreads) {
  if (sanitized) GTEST_SKIP() << "as on a few";
  for (const int ranks : {5, 8}) is_right_on_threads(GetParam(), ranks);
}

TEST_P(EveryAlgorithm, KnowsEveryTypeAndOperation) {
  const Algorithm& algorithm = *GetParam().algorithm;
  const Collective collective = algorithm.collective;
  const bool prefix = collective == Collective::scan || collective == Collective::exscan;
  on_threads(3, settings_for(GetParam()), [&](Communicator& world) {
    for (const DataType type : types)
      for (const ReduceOp op : all_reduce_ops()) {
        if (reduces(collective) && !supports(type, op)) continue;
        if ((!reduces(collective) && op != ReduceOp::sum) || (prefix && op == ReduceOp::average))
          continue;
        for (const int n : {7, 3001}) {
          Shape shape{.count = Elements{static_cast<std::uint64_t>(n)}};
          if (shape.count > GetParam().longest) continue;
          if (has_counts(collective))
            shape = {.counts = std::vector<Elements>(collective == Collective::all_to_all_v ? 9 : 3,
                                                     shape.count)};
          if (collective == Collective::barrier) shape.count = Elements{0};
          expect_right(world, {.collective = collective, .type = type, .op = op, .shape = shape});
        }
      }
  });
}

std::vector<Variant> every_variant() {
  std::vector<Variant> all;
  for (const Collective collective : all_collectives())
    for (const Algorithm& algorithm : algorithms(collective)) {
      constexpr Elements any{1 << 30}, in_packets{1000};
      for (std::string& rule : variants_of(algorithm))
        all.push_back({&algorithm, std::move(rule), any});
      for (std::string& rule : packet_variants_of(algorithm))
        all.push_back({&algorithm, std::move(rule), in_packets});
    }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, EveryAlgorithm, ::testing::ValuesIn(every_variant()),
                         [](const auto& test) {
                           std::string name{name_of(test.param.algorithm->collective)};
                           name += "_" + test.param.rule;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

/// All collectives follow one another, by the selector's choice, while some ranks come late.
TEST(Collectives, AllKindsFollowOneAnother) {
  Settings settings;
  settings.timeout = std::chrono::seconds{60};
  settings.chunk = Bytes{8192};
  for (const int ranks : {2, 3, 4, 7})
    on_threads(ranks, settings, [&](Communicator& world) {
      unsigned state = 2026, own = static_cast<unsigned>(world.rank());
      const auto next = [](unsigned& s) { return s = s * 1664525u + 1013904223u, s >> 16; };
      for (int i = 0; i < (sanitized ? 100 : 400); ++i) {
        const auto all = all_collectives();
        const Collective collective = all[next(state) % all.size()];
        const auto shapes = shapes_of(collective, ranks);
        Cell cell{.collective = collective, .shape = shapes[next(state) % shapes.size()]};
        if (has_root(collective))
          cell.shape.root = static_cast<int>(next(state) % static_cast<unsigned>(ranks));
        if (next(own) % 64 == 0) std::this_thread::sleep_for(std::chrono::milliseconds{2});
        expect_right(world, cell);
      }
    });
}

/// A repeated call does not use its plan beyond the life of the plan, which ends after more kinds
/// of calls than are remembered.
TEST(Collectives, ARepeatedCallRunsRightWhateverCameBetween) {
  constexpr int kinds = 1500;
  Settings settings;
  settings.timeout = std::chrono::seconds{60};
  settings.autotune = false;  // plans of measured calls are not remembered
  on_threads(2, settings, [](Communicator& world) {
    std::vector<std::int64_t> data(kinds);
    std::int64_t round = 0;
    const auto repeat = [&] {
      for (int i = 0; i < 3; ++i) {
        data[0] = ++round * (world.rank() + 1);
        world.all_reduce(std::span{data}.first(1));
        EXPECT_EQ(data[0], 3 * round);
      }
    };
    repeat();
    for (std::size_t count = 1; count <= kinds; ++count) {
      data[count - 1] = world.rank() == 1 ? static_cast<std::int64_t>(count) : 0;
      world.broadcast(std::span{data}.first(count), 1);
      EXPECT_EQ(data[count - 1], static_cast<std::int64_t>(count));
    }
    repeat();
  });
}

/// Repeated calls are told apart although some share a place in the table: those with the same
/// buffers and counts but another root or operation, and those of more buffers than there are
/// places.
TEST(Collectives, RepeatedCallsInTurnAreToldApart) {
  constexpr int buffers = 150;
  Settings settings;
  settings.timeout = std::chrono::seconds{60};
  settings.autotune = false;
  on_threads(3, settings, [](Communicator& world) {
    std::vector<std::int64_t> own(buffers), all(buffers), shared(1);
    for (int round = 1; round <= 4; ++round) {
      for (std::size_t i = 0; i < buffers; ++i) {
        own[i] = round * (world.rank() + 2) + static_cast<std::int64_t>(i);
        const auto lowest = 2 * round + static_cast<std::int64_t>(i);  // rank 0's
        const std::span from = std::span{own}.subspan(i, 1), to = std::span{all}.subspan(i, 1);
        world.all_reduce(from, to);
        EXPECT_EQ(all[i], 3 * lowest + 3 * round) << "buffer " << i;
        world.all_reduce(from, to, ReduceOp::max);
        EXPECT_EQ(all[i], lowest + 2 * round) << "buffer " << i;
      }
      world.barrier();
      for (int root = 0; root < 3; ++root) {
        shared[0] = 10 * round + world.rank();
        world.broadcast(shared, root);
        EXPECT_EQ(shared[0], 10 * round + root);
      }
    }
  });
}

/// Callbacks run while a call waits, and may call, too: each call keeps its own plan.
TEST(Collectives, ACallbackThatCallsDisturbsNoRepeatedCall) {
  Settings settings;
  settings.timeout = std::chrono::seconds{60};
  settings.autotune = false;
  on_threads(3, settings, [](Communicator& world) {
    std::vector<float> large(100'000);
    std::vector<std::int64_t> shown(3), blocks(3);
    const auto show = [&] { world.broadcast(std::span{shown}.first(1), 0); };
    for (int round = 1; round <= 20; ++round) {
      std::ranges::fill(large, 1.0F);
      shown = {world.rank() == 0 ? round : 0, -1, -1};
      Work work = world.start_all_reduce(std::span{large});
      work.on_complete([&](const Work&) { show(); });
      const std::array<std::int64_t, 1> own{100 * round + world.rank()};
      world.all_gather(own, blocks);
      work.wait();
      for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(large[0], 3.0F);
        EXPECT_EQ(shown, (std::vector<std::int64_t>{round, -1, -1}));
        for (int rank = 0; rank < 3; ++rank)
          EXPECT_EQ(blocks[static_cast<std::size_t>(rank)], 100 * round + rank);
        show();  // the callback's request, as it may be remembered
      }
    }
  });
}

/// The first rank of a chain, with nothing to send, never waits; only the others wait for it.
TEST(Collectives, ARankThatWaitsForNobodyLearnsThatTheOthersAreGone) {
  Settings settings;
  settings.autotune = false;  // ranks would wait for each other to agree on times
  auto world = Communicator::local_world(2, settings);
  const auto scan_nothing = [&](Communicator& rank) {
    const std::vector<int> nothing;
    std::vector<int> sums;
    rank.scan(nothing, sums);
  };
  scan_nothing(world[0]);
  scan_nothing(world[1]);
  world.pop_back();
  const auto go_on = [&] {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{60};
    while (std::chrono::steady_clock::now() < end) scan_nothing(world[0]);
  };
  EXPECT_THROW(go_on(), PeerLost);
}

}  // namespace
}  // namespace capstan
