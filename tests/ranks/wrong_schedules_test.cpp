// SPDX-License-Identifier: Apache-2.0

// Schedules with random mistakes, as files and as functions that are wrong from a size on: each is
// refused or runs right, at every size. By hand, as many as CAPSTAN_MUTANTS says ("100000", or
// "100000,5000" from number 5000 on).

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <random>

#include "capstan/custom_algorithm.hpp"
#include "core/schedule/custom/added_algorithms.hpp"
#include "core/schedule/interchange/schedule_set.hpp"
#include "tests/proofs/mutant.hpp"
#include "tests/ranks/reference_calls.hpp"
#include "tests/ranks/thread_world.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using testing::Mutant;
using Random = std::mt19937_64;

struct Range64 {
  std::uint64_t first = 0, end = 0;
};

Range64 numbers(std::uint64_t usual) {
  const char* const asked = std::getenv("CAPSTAN_MUTANTS");
  if (!asked) return {0, sanitized ? usual / 10 : usual};
  char* rest = nullptr;
  const std::uint64_t count = std::strtoull(asked, &rest, 10);
  const std::uint64_t first = *rest == ',' ? std::strtoull(rest + 1, nullptr, 10) : 0;
  return {first, first + count};
}

struct Totals {
  std::size_t tried = 0, refused = 0, refused_in_calls = 0, ran = 0, calls = 0;

  ~Totals() {
    fmt::print("{} tried: {} refused, {} refused at some size, {} ran at all; {} calls\n", tried,
               refused, refused_in_calls, ran, calls);
  }
};

/// An algorithm of the library at some size.
struct Original {
  const Algorithm* algorithm;
  int ranks;
  Shape shape;
};

Original random_original(Random& random) {
  const auto collectives = all_collectives();
  for (;;) {
    const Collective collective = collectives[random() % collectives.size()];
    const auto all = algorithms(collective);
    Original original{&all[random() % all.size()], static_cast<int>(2 + random() % 3), {}};
    if (original.ranks > original.algorithm->max_ranks) continue;
    const auto p = static_cast<std::size_t>(original.ranks);
    if (collective != Collective::barrier) original.shape.count = Elements{1 + random() % 40};
    if (has_root(collective)) original.shape.root = static_cast<int>(random() % p);
    if (!has_counts(collective)) return original;
    original.shape.count = Elements{0};
    for (std::size_t i = 0; i < (collective == Collective::all_to_all_v ? p * p : p); ++i)
      original.shape.counts.emplace_back(random() % 9);
    return original;
  }
}

/// Spoils the schedules of one or more ranks in one to three places; nothing where the builder
/// refuses that already.
std::optional<std::string> spoil(ByRank<Schedule>& schedules, Random& random) {
  std::string changes;
  for (std::uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
    const auto p = static_cast<std::uint64_t>(schedules.size());
    const Rank victim{static_cast<std::int32_t>(random() % p)};
    Mutant mutant{schedules[victim]};
    changes += fmt::format("; rank {} {}", victim.value(), mutant.mutate(random, schedules.size()));
    auto changed = mutant.build(schedules.size());
    if (!changed) return std::nullopt;
    schedules[victim] = std::move(*changed);
  }
  return changes;
}

/// Twenty sizes: small ones, around blocks of 4 KiB and packets, and long ones.
std::vector<Shape> sizes_for(const Original& original) {
  const Collective collective = original.algorithm->collective;
  if (has_counts(collective) || collective == Collective::barrier)
    return {original.shape, original.shape};
  const auto p = static_cast<std::uint64_t>(original.ranks);
  std::vector<Shape> shapes{original.shape};
  for (const std::uint64_t count :
       {std::uint64_t{0}, std::uint64_t{1}, p - 1, p + 1, 2 * p + 1, std::uint64_t{13},
        std::uint64_t{29}, std::uint64_t{56}, std::uint64_t{57}, std::uint64_t{65},
        std::uint64_t{113}, std::uint64_t{257}, std::uint64_t{511}, std::uint64_t{513},
        std::uint64_t{1025}, std::uint64_t{1537}, std::uint64_t{4097}, std::uint64_t{9001},
        std::uint64_t{20'000}})
    shapes.push_back({.count = Elements{count}, .root = original.shape.root});
  return shapes;
}

/// The sizes above the threshold, and two below it between them, where the schedules are right.
std::vector<Shape> sizes_above(Elements threshold, const Original& original) {
  std::vector<Shape> shapes, right;
  for (const Shape& shape : sizes_for(original))
    (shape.count > threshold ? shapes : right).push_back(shape);
  for (const std::size_t which : {std::size_t{0}, right.size() - 1})
    shapes.insert(shapes.begin() + static_cast<std::ptrdiff_t>(shapes.size() / 2), right[which]);
  return shapes;
}

bool turns_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce;
}

struct Trial {
  std::size_t calls = 0, refused = 0;
  std::string wrong{};
};

/// Runs the algorithm of this name at all of its sizes. All ranks refuse a call, or none does.
Trial run_everywhere(const Original& original, const std::vector<Shape>& sizes,
                     const std::string& name, std::uint64_t seed, bool any_root) {
  Settings settings = bounded_settings();
  settings.timeout = std::chrono::seconds{20};
  settings.algorithm = fmt::format("{}:{}", name_of(original.algorithm->collective), name);
  if (seed % 3 != 0) settings.chunk = Bytes{4096};
  Trial run;
  std::mutex mutex;
  on_threads(original.ranks, settings, [&](Communicator& world) {
    ReferenceCalls calls{world, seed};
    Random random{seed};  // the same choices on all ranks
    for (Shape shape : sizes) {
      if (any_root) shape.root = static_cast<int>(random() % static_cast<unsigned>(world.size()));
      const bool in_place =
          original.algorithm->collective != Collective::all_to_all_v && random() % 3 == 0;
      for (int times = 0; times < 5; ++times) {
        std::optional<std::string> wrong;
        bool refused = false;
        try {
          wrong = calls.run(original.algorithm->collective, shape, in_place);
        } catch (const AlgorithmRefused&) {
          refused = true;
        } catch (const std::exception& error) {
          wrong = error.what();
        }
        const std::scoped_lock lock{mutex};
        ++run.calls;
        run.refused += refused;
        if (wrong && run.wrong.empty())
          run.wrong =
              fmt::format("count {}, root {}{}, call {}: rank {}: {}", shape.count.value(),
                          shape.root, in_place ? ", in place" : "", times, world.rank(), *wrong);
        if (refused) break;
        if (wrong) return;
      }
    }
  });
  return run;
}

void count(Totals& totals, const Trial& run) {
  totals.calls += run.calls;
  (run.refused > 0 ? totals.refused_in_calls : totals.ran) += 1;
}

TEST(WrongSchedules, AsFilesAreRefusedOrRunRight) {
  Totals totals;
  const auto [first, end] = numbers(150);
  for (std::uint64_t seed = first; seed < end; ++seed) {
    Random random{seed};
    const Original original = random_original(random);
    ScheduleSet set = schedule_set(*original.algorithm, original.ranks, original.shape);
    set.algorithm = fmt::format("wrong_{}", seed);
    const auto changes = spoil(set.schedules, random);
    ++totals.tried;
    try {
      if (!changes) throw InvalidArgument("by the builder");
      AddedAlgorithms::of_process().add(set, "test");
      (void)AddedAlgorithms::of_process().find(set.collective, set.algorithm, original.ranks);
    } catch (const InvalidArgument&) {
      ++totals.refused;
      continue;
    }
    const Trial run = run_everywhere(original, sizes_for(original), set.algorithm, seed,
                                     turns_root(original.algorithm->collective));
    count(totals, run);
    EXPECT_EQ(run.wrong, "") << "seed " << seed << ": " << name_of(set.collective) << " by "
                             << original.algorithm->name << " on " << original.ranks << " ranks, "
                             << original.shape.count.value() << " elements" << *changes;
  }
}

/// A function whose schedules are those of the library up to a size, and spoiled above.
TEST(WrongSchedules, OfFunctionsFromASizeOnAreRefusedOrRunRight) {
  Totals totals;
  const auto [first, end] = numbers(50);
  for (std::uint64_t seed = first; seed < end; ++seed) {
    Random random{seed + 1'000'000'007};
    Original original = random_original(random);
    const Collective collective = original.algorithm->collective;
    if (has_counts(collective) || collective == Collective::barrier) continue;
    const Elements threshold{16 + random() % 2000};
    const std::uint64_t mistakes = random();
    const auto build = [algorithm = original.algorithm, threshold, mistakes](const Group& group,
                                                                             const Shape& shape) {
      ByRank<Schedule> schedules;
      for (const Rank rank : all_ranks(group.size()))
        schedules.push_back(algorithm->schedule(Group::world(group.size(), rank), shape));
      Random same{mistakes};
      auto spoiled = schedules;
      const bool wrong = shape.count > threshold && spoil(spoiled, same);
      return (wrong ? spoiled : schedules)[Rank{group.position()}];
    };
    const std::string name = fmt::format("wrong_above_{}", seed);
    add_algorithm({name, collective, build}, std::array{original.ranks});
    ++totals.tried;
    const Trial run = run_everywhere(original, sizes_above(threshold, original), name, seed,
                                     has_root(collective));
    count(totals, run);
    EXPECT_EQ(run.wrong, "") << "seed " << seed << ": " << name_of(collective) << " by "
                             << original.algorithm->name << " on " << original.ranks
                             << " ranks, wrong above " << threshold.value() << " elements";
  }
}

}  // namespace
}  // namespace capstan
