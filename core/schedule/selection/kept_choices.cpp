// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/kept_choices.hpp"

#include <utility>

namespace capstan {

Choice KeptChoices::choice(const Call& call) {
  constexpr std::size_t most = 1024;
  const auto choose_for = [&](const Call& c) {
    return choose(c, context_.hosts, context_.rules, order_of(c), context_.links,
                  context_.measured.get());
  };
  if (!context_.rules.empty() || has_counts(call.collective)) return choose_for(call);
  const Call key = typical(call);
  if (kept_.size() >= most) kept_.clear();
  const auto found = kept_.find(key);
  return found != kept_.end() ? found->second : kept_.emplace(key, choose_for(key)).first->second;
}

bool KeptChoices::is_profiled(const Call& call) const {
  const int ranks = context_.hosts.ranks();
  return context_.measured && is_measured_kind(call) &&
         context_.measured->at(call.collective, ranks, context_.hosts.count(), call.extent(ranks))
             .decides();
}

void KeptChoices::use_rules(AlgorithmRules rules) {
  kept_.clear();
  context_.rules = std::move(rules);
}

}  // namespace capstan
