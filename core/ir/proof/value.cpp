#include "core/ir/proof/value.hpp"

#include <algorithm>

namespace capstan::proof {

ValueId Values::intern(Content content) {
  const auto [entry, is_new] =
      ids_.try_emplace(std::move(content), static_cast<ValueId>(contents_.size()));
  if (is_new) contents_.push_back(entry->first);
  return entry->second;
}

ValueId Values::contribution(const Contribution& contribution) {
  return intern({{{contribution, 1}}, false, true});
}

bool Values::follows(ValueId a, ValueId b) const {
  const Content &first = contents_[a], &second = contents_[b];
  return first.ordered && second.ordered && !first.terms.empty() && !second.terms.empty() &&
         first.terms.back().first.rank.value() + 1 == second.terms.front().first.rank.value();
}

ValueId Values::sum(ValueId a, ValueId b) {
  const std::uint64_t key = static_cast<std::uint64_t>(a) << 32 | b;
  if (const auto known = sums_.find(key); known != sums_.end()) return known->second;
  Content merged{contents_[a].terms, false, follows(a, b)};
  for (const auto& [contribution, times] : contents_[b].terms) {
    const auto at = std::ranges::lower_bound(merged.terms, contribution, {},
                                             [](const auto& term) { return term.first; });
    if (at != merged.terms.end() && at->first == contribution)
      at->second += times;
    else
      merged.terms.insert(at, {contribution, times});
  }
  return sums_[key] = intern(std::move(merged));
}

ValueId Values::completed(ValueId value) {
  Content content = contents_[value];
  content.complete = true;
  return intern(std::move(content));
}

}  // namespace capstan::proof
