#pragma once

#include <string>
#include <vector>

#include "core/lowering/call.hpp"
#include "core/lowering/plan.hpp"
#include "core/selection/rules.hpp"
#include "core/selection/simulator.hpp"

namespace capstan {

/// A call that costs the same as all of about its size: what is chosen for it suits them.
Call typical(Call call);

/// Whether calls like this one may run in several ways by turns. The same on all ranks, and whether
/// or not the program wants trials. Not where ranks share cores and calls are short: who has a core
/// is all that these would measure.
bool may_be_tried(const Call& call, const Hosts& hosts, const LinkModel& model);

/// Chooses how a call runs: the rule that the user gave, or else the candidate of least predicted
/// time. What may be tried is chosen so that trials have a choice: an algorithm whose sums others
/// give too, bit by bit, unless it is predicted to take 1.5 times as long (2 times in packets). A
/// pure function of its arguments, so that all ranks choose alike. When `commutative` is false,
/// only algorithms that keep the order of ranks are candidates.
Choice choose(const Call& call, const Hosts& hosts, const AlgorithmRules& rules,
              bool commutative = true, const LinkModel& model = {});

inline constexpr std::uint64_t shorter_blocks = 4;  ///< times shorter than usual, in trials

/// What may turn out to be faster than predicted: a few ways, of different protocols if possible,
/// the best first, that give the same results as what is chosen, bit by bit. What is staged in
/// blocks, of `block` bytes usually, may be faster in shorter ones, of which the model knows
/// nothing.
std::vector<Choice> rivals(const Call& call, const Hosts& hosts, const LinkModel& model,
                           Bytes block);

}  // namespace capstan
