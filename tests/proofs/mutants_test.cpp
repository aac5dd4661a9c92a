// SPDX-License-Identifier: Apache-2.0

// The verifier must refuse each schedule of every algorithm that lacks a step or has one twice.

#include <gtest/gtest.h>

#include "core/schedule/proof/prove.hpp"
#include "tests/proofs/builds.hpp"
#include "tests/sanitizers.hpp"

namespace capstan {
namespace {

using namespace proof;  // NOLINT: the subject of this file

/// Copies a schedule step by step, except that step `at` is left out or doubled.
Schedule mutant(const Schedule& original, std::size_t at, bool doubled) {
  constexpr Elements any_output{1 << 20};
  const Extents& extents = original.extents();
  ScheduleBuilder s{Group::world(64, original.self()), extents.input, extents.output, any_output};
  s.scratch(extents.scratch);
  int phase = 0;
  for (std::size_t i = 0; i < original.steps().size(); ++i) {
    const Step& step = original.steps()[i];
    for (; phase < step.phase; ++phase) s.next_phase();
    for (int times = i == at ? 2 * doubled : 1; times > 0; --times) {
      const auto sources = original.sources(step);
      if (step.verb == Verb::signal) s.signal(step.peer);
      if (step.verb == Verb::wait) s.wait(step.peer);
      if (step.verb == Verb::put) s.put(step.peer, step.destination, sources.front());
      if (step.verb == Verb::copy) s.copy(step.destination, sources.front());
      if (step.verb == Verb::reduce)
        step.completes ? s.complete(step.destination, sources)
                       : s.reduce(step.destination, sources);
    }
  }
  return std::move(s).build();
}

/// A size at which no step of any algorithm is empty.
Shape full_shape(Collective collective, int ranks) {
  Shape shape{.count = Elements{12}, .root = has_root(collective) ? 1 : 0};
  if (has_counts(collective))
    shape.counts.assign(
        static_cast<std::size_t>(collective == Collective::all_to_all_v ? ranks * ranks : ranks),
        Elements{3});
  return shape;
}

bool refused(const Algorithm& algorithm, const Shape& shape, const ByRank<Schedule>& bad) {
  return !prove_schedules(algorithm.collective, shape, bad,
                          {.synchronizes = algorithm.guarantees.synchronizes})
              .ok();
}

/// On one host, and over several what is another schedule there.
std::vector<Hosts> worlds_for(const Algorithm& algorithm) {
  std::vector<Hosts> worlds{2, 3};
  if (!sanitized) worlds.insert(worlds.end(), {4, 6});
  for (const auto& host_of : {std::vector{0, 0, 1, 1}, {0, 1, 0, 1, 0}, {0, 0, 1, 1, 2, 2}})
    if (algorithm.requirement != Requires::anywhere && algorithm.suits(Hosts{host_of}))
      worlds.emplace_back(host_of);
  return worlds;
}

TEST(Mutants, EveryDroppedStepOfEveryAlgorithmIsRefused) {
  for (const Algorithm* algorithm : every_algorithm())
    for (const Hosts& hosts : worlds_for(*algorithm)) {
      const Shape shape = full_shape(algorithm->collective, hosts.ranks());
      const auto good = schedules_of(*algorithm, hosts, shape);
      for (const Rank rank : all_ranks(good.size()))
        for (std::size_t at = 0; at < good[rank].steps().size(); ++at) {
          auto bad = good;
          bad[rank] = mutant(good[rank], at, false);
          EXPECT_TRUE(refused(*algorithm, shape, bad))
              << full_name(*algorithm) << " on " << hosts.ranks() << " ranks of " << hosts.count()
              << " hosts without step " << at << " of rank " << rank.value() << ": "
              << to_string(good[rank], good[rank].steps()[at]);
        }
    }
}

TEST(Mutants, EveryDoubledSignalOrWaitIsRefused) {
  for (const Algorithm* algorithm : every_algorithm()) {
    const int ranks = sanitized ? 3 : 5;
    const Shape shape = full_shape(algorithm->collective, ranks);
    const auto good = schedules_of(*algorithm, ranks, shape);
    for (const Rank rank : all_ranks(good.size()))
      for (std::size_t at = 0; at < good[rank].steps().size(); ++at) {
        const Verb verb = good[rank].steps()[at].verb;
        if (verb != Verb::signal && verb != Verb::wait) continue;
        auto bad = good;
        bad[rank] = mutant(good[rank], at, true);
        EXPECT_TRUE(refused(*algorithm, shape, bad)) << full_name(*algorithm);
      }
  }
}

}  // namespace
}  // namespace capstan
