// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <unordered_map>

#include "core/schedule/selection/selector.hpp"

namespace capstan {

/// Everything besides a call that its choice depends on: the same on all ranks.
struct SelectionContext {
  Hosts hosts{1};
  AlgorithmRules rules{};
  LinkModel links{};
  std::shared_ptr<const MeasuredTimes> measured{};  ///< of a profile; null: none
  Reproducible reproducible = Reproducible::run;
};

/// Chooses how calls run, and keeps the choices. Choosing takes much longer than making a plan:
/// calls of about the same size share one choice.
class KeptChoices {
 public:
  explicit KeptChoices(SelectionContext context) : context_(std::move(context)) {}

  const SelectionContext& context() const { return context_; }
  SumOrder order_of(const Call& call) const {
    return needed_order(call, context_.hosts, context_.reproducible);
  }
  /// See choose().
  Choice choice(const Call& call);
  /// Whether a profile decides about such calls.
  bool is_profiled(const Call& call) const;
  /// Decides by other rules from now on.
  void use_rules(AlgorithmRules rules);

 private:
  SelectionContext context_;
  std::unordered_map<Call, Choice, CallHash> kept_;  // by typical call
};

}  // namespace capstan
