// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/schedule/selection/selector.hpp"

namespace capstan {

/// An algorithm in a protocol, and what became of it in a decision.
struct SurveyedWay {
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::staged;
  std::optional<PredictedTime> predicted{};  ///< none where it cannot run
  std::optional<double> measured{};          ///< nanoseconds, from a profile
  bool chosen = false;
  std::string verdict{};  ///< why it was taken, or not
};

/// A decision with every algorithm of the collective in every protocol: the chosen one first, then
/// those that can run by their times, then the others.
struct Survey {
  Decision decision;
  std::vector<SurveyedWay> ways;
  std::vector<std::string> rules_passed_over;  ///< that match, but cannot be followed, and why
  /// The reason why the chosen plan would not run; empty where it runs, or was not proven.
  std::string refusal{};

  void set_refusal(std::string why);
};

/// A pure function of its arguments; see decide().
Survey survey(const Call& call, const Hosts& hosts, const AlgorithmRules& rules, SumOrder order,
              const LinkModel& model, const MeasuredTimes* measured);

}  // namespace capstan
