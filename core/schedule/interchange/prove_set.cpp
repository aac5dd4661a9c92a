// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/interchange/prove_set.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"
#include "core/schedule/interchange/formats.hpp"
#include "core/schedule/proof/prove.hpp"

namespace capstan {
namespace {

/// A rank alone runs without a schedule: nothing is lowered.
AlgorithmProof prove_alone(const ScheduleSet& set, proof::Budget* budget) {
  AlgorithmProof proof;
  for (const bool in_place : {true, false}) {
    const auto result = proof::prove_schedules(set.collective, set.shape, set.schedules,
                                               {.in_place = in_place,
                                                .synchronizes = set.guarantees.synchronizes,
                                                .bounded_skew = set.guarantees.bounded_skew,
                                                .budget = budget});
    ++proof.proofs;
    for (const proof::Finding& finding : result.findings)
      proof.findings.push_back(flaw_of(finding, title_of(set)));
  }
  return proof;
}

}  // namespace

Schedule SchedulesOfSet::schedule(const Group& group, const Shape& shape) const {
  if (shape != set_.shape || group.size() != set_.schedules.size())
    throw InvalidArgument(fmt::format("{}: it has no schedules for other sizes", set_.algorithm));
  return set_.schedules[Rank{group.position()}];
}

Algorithm algorithm_of(const ScheduleSet& set, const SchedulesOfSet& source) {
  return {.name = set.algorithm,
          .collective = set.collective,
          .summary = set.summary,
          .build = nullptr,
          .max_ranks = set.schedules.size(),
          .guarantees = {.synchronizes = set.guarantees.synchronizes,
                         .bounded_skew = set.guarantees.bounded_skew,
                         .ordered = set.guarantees.ordered,
                         .same_sums = false},
          .traffic = set.traffic,
          .source = &source};
}

AlgorithmProof prove_set(const ScheduleSet& set, proof::Budget* budget) {
  if (set.schedules.size() == 1) return prove_alone(set, budget);
  const SchedulesOfSet source{set};
  const Algorithm algorithm = algorithm_of(set, source);
  AlgorithmProof proof =
      prove_algorithm(algorithm, set.hosts, set.shape, ProvenBuffers::both, budget);
  if (proof.ok())
    proof +=
        prove_streams(algorithm, set.hosts, ProvenStreams::of(set.collective, set.shape), budget);
  return proof;
}

}  // namespace capstan
