// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/proof/value.hpp"

#include <algorithm>

namespace capstan::proof {

ValueId Values::intern(Content content) {
  const auto [entry, is_new] =
      ids_.try_emplace(content.key(), static_cast<ValueId>(contents_.size()));
  if (is_new) contents_.push_back(std::move(content));
  return entry->second;
}

Values::SumId Values::intern_sum(std::vector<SumId> terms) {
  const auto [entry, is_new] =
      sum_ids_.try_emplace(std::move(terms), static_cast<SumId>(sum_terms_.size()));
  if (is_new) sum_terms_.push_back(entry->first);
  return entry->second;
}

ValueId Values::contribution(const Contribution& contribution) {
  const auto [entry, is_new] = leaves_.try_emplace(contribution, nothing);
  if (is_new) {
    const auto sum = static_cast<SumId>(sum_terms_.size());
    sum_terms_.push_back({sum});
    entry->second = intern({.terms = {{contribution, 1}}, .sum = sum});
  }
  return entry->second;
}

bool Values::follows(ValueId a, ValueId b) const {
  const Content &first = contents_[a], &second = contents_[b];
  return first.ordered && second.ordered && !first.terms.empty() && !second.terms.empty() &&
         first.terms.back().first.rank.value() + 1 == second.terms.front().first.rank.value();
}

/// Whether `b` is the next contribution in a sum whose step began with a contribution, too.
bool Values::extends_one_reduction(ValueId a, ValueId b) const {
  const Content &first = contents_[a], &second = contents_[b];
  const bool begins = first.open ? first.one_reduction : first.terms.size() == 1;
  return begins && second.terms.size() == 1 && follows(a, b);
}

Values::SumId Values::sum_of(ValueId a, ValueId b) {
  const Content &first = contents_[a], &second = contents_[b];
  if (!first.open)
    return intern_sum({std::min(first.sum, second.sum), std::max(first.sum, second.sum)});
  std::vector<SumId> terms = sum_terms_[first.sum];
  terms.push_back(second.sum);
  return intern_sum(std::move(terms));
}

ValueId Values::sum(ValueId a, ValueId b) {
  const std::uint64_t key = static_cast<std::uint64_t>(a) << 32 | b;
  if (const auto known = sums_.find(key); known != sums_.end()) return known->second;
  Content merged{.terms = {},
                 .ordered = follows(a, b),
                 .open = true,
                 .one_reduction = extends_one_reduction(a, b),
                 .sum = sum_of(a, b)};
  if (const auto known = ids_.find(merged.key()); known != ids_.end())
    return sums_[key] = known->second;
  merged.terms = contents_[a].terms;
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

ValueId Values::summed(ValueId value) {
  if (!contents_[value].open) return value;
  Content content = contents_[value];
  content.open = false;
  return intern(std::move(content));
}

ValueId Values::completed(ValueId value) {
  constexpr SumId in_its_step = ~SumId{0}, when_stored = in_its_step - 1;
  Content content = contents_[value];
  content.complete = true;
  // A sum that is divided after it was stored has been rounded twice.
  content.one_reduction = content.one_reduction && (content.open || content.terms.size() == 1);
  content.sum = intern_sum({content.open ? in_its_step : when_stored, content.sum});
  return intern(std::move(content));
}

}  // namespace capstan::proof
