#pragma once

#include <string>
#include <vector>

#include "core/lowering/call.hpp"
#include "core/lowering/plan.hpp"
#include "core/selection/rules.hpp"
#include "core/selection/simulator.hpp"

namespace capstan {

/// A call that stands for all calls of about its size: the choice for it suits them all.
Call typical(Call call);

/// Whether calls like this one may be tuned: candidates for them are measured. The same on all
/// ranks, whatever the program's settings are. Short calls are not tuned where ranks share cores:
/// their times would depend on nothing but which rank has a core.
bool may_be_tuned(const Call& call, const Hosts& hosts, const LinkModel& model);

/// Chooses how a call runs: by the rule that the user gave, or else the candidate of least
/// predicted time. Among calls that may be tuned, a candidate whose result is bitwise reproducible
/// is preferred, as others then give the same result: unless it is predicted to take 1.5 times as
/// long (2 times in packets). A pure function of its arguments, so that all ranks choose alike.
/// When `commutative` is false, only algorithms that keep the order of ranks are candidates. Throws
/// InvalidArgument when none is left.
Choice choose(const Call& call, const Hosts& hosts, const AlgorithmRules& rules,
              bool commutative = true, const LinkModel& model = {});

inline constexpr std::uint64_t shorter_blocks = 4;  ///< times shorter than usual, in tuning

/// The candidates that are measured, the one with the least predicted time first: a few, of
/// different protocols if possible. All give the same result as the choice of choose(), bit by bit.
/// Staged calls in blocks, of `block` bytes usually, may be faster in shorter blocks, of which the
/// model knows nothing.
std::vector<Choice> tuning_candidates(const Call& call, const Hosts& hosts, const LinkModel& model,
                                      Bytes block);

}  // namespace capstan
