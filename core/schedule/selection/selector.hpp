// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/schedule/lowering/call.hpp"
#include "core/schedule/lowering/plan.hpp"
#include "core/schedule/selection/candidates.hpp"
#include "core/schedule/selection/measured_times.hpp"
#include "core/schedule/selection/rules.hpp"

namespace capstan {

/// A call that stands for all calls of about its size: the choice for it suits them all.
Call typical(Call call);

/// Whether calls like this one may be tuned: candidates for them are measured. The same on all
/// ranks, whatever the program's settings are. Short calls are not tuned where ranks share cores:
/// their times would depend on nothing but which rank has a core.
bool may_be_tuned(const Call& call, const Hosts& hosts, const LinkModel& model);

/// The call as rules see it.
RuledCall ruled_call(const Call& call, const Hosts& hosts);
/// Whether measured times say anything about such calls: these are made by programs, in memory that
/// peers have not mapped, without operations of the program or counts per rank.
bool is_measured_kind(const Call& call);

/// The source of a decision.
enum class Source : std::uint8_t { rule, profile, model };
std::string_view name_of(Source source);

/// A choice, and how it came about.
struct Decision {
  Choice choice;
  Source source = Source::model;
  std::vector<Candidate> candidates{};  ///< that were compared; none where a rule decides
};

/// Decides how a call runs: by the first rule that it can follow, or else by what was measured, or
/// else by the least predicted time. Among calls that may be tuned, a candidate whose result is
/// bitwise reproducible is preferred, as others then give the same result: unless it is predicted
/// to take 1.5 times as long (2 times in packets). A pure function of its arguments, so that all
/// ranks decide alike. Only algorithms that add in the `order` asked for are candidates. Throws
/// InvalidArgument when none is left.
Decision decide(const Call& call, const Hosts& hosts, const AlgorithmRules& rules,
                SumOrder order = SumOrder::any, const LinkModel& model = {},
                const MeasuredTimes* measured = nullptr);

/// The choice alone.
Choice choose(const Call& call, const Hosts& hosts, const AlgorithmRules& rules,
              SumOrder order = SumOrder::any, const LinkModel& model = {},
              const MeasuredTimes* measured = nullptr);

inline constexpr std::uint64_t shorter_blocks = 4;  ///< times shorter than usual, in tuning

/// A choice for the first calls of a kind, made in a few microseconds, where a better one takes
/// longer than such a call. It gives the same result as the choice of choose(), bit by bit: empty
/// where that is not known beforehand, and for calls that are long or not tuned.
std::optional<Choice> first_choice(const Call& call, const Hosts& hosts, const LinkModel& model);

/// The candidates that are measured, the one with the least predicted time first; of calls whose
/// buffers come to lie in huge pages, with the least one before that. A few, of different protocols
/// if possible. All give the same result as the choice of choose(), bit by bit.
/// Staged calls in blocks, of `block` bytes usually, may be faster in shorter blocks, of which the
/// model knows nothing.
std::vector<Choice> tuning_candidates(const Call& call, const Hosts& hosts, const LinkModel& model,
                                      Bytes block, SumOrder order = SumOrder::any);

}  // namespace capstan
