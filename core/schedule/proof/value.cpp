// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/proof/value.hpp"

#include <algorithm>
#include <functional>
#include <limits>

namespace capstan::proof {

ValueId Values::intern(const Content& content) {
  const auto [entry, is_new] =
      ids_.try_emplace(content.key(), static_cast<ValueId>(contents_.size()));
  if (is_new) contents_.push_back(content);
  return entry->second;
}

Values::SumId Values::intern_sum(Growth growth, SumId before, SumId with) {
  auto& known = sum_ids_[static_cast<std::size_t>(growth)];
  const auto [entry, is_new] = known.try_emplace(std::uint64_t{before} << 32 | with, last_sum_ + 1);
  if (is_new) ++last_sum_;
  return entry->second;
}

ValueId Values::contribution(const Contribution& contribution) {
  const auto [entry, is_new] = leaves_.try_emplace(contribution, nothing);
  if (is_new)
    entry->second = intern(
        {.first = contribution, .last = contribution, .has_terms = true, .sum = ++last_sum_});
  return entry->second;
}

bool Values::follows(ValueId a, ValueId b) const {
  const Content &first = contents_[a], &second = contents_[b];
  return first.ordered && second.ordered && first.has_terms && second.has_terms &&
         first.last.rank.value() + 1 == second.first.rank.value();
}

/// Whether `b` is the next contribution in a sum whose step began with a contribution, too.
bool Values::extends_one_reduction(ValueId a, ValueId b) const {
  const Content &first = contents_[a], &second = contents_[b];
  const bool begins = first.open ? first.one_reduction : first.has_one_term();
  return begins && second.has_one_term() && follows(a, b);
}

Values::SumId Values::sum_of(ValueId a, ValueId b) {
  const Content &first = contents_[a], &second = contents_[b];
  if (first.open) return intern_sum(Growth::extended, first.sum, second.sum);
  return intern_sum(Growth::begun, std::min(first.sum, second.sum),
                    std::max(first.sum, second.sum));
}

ValueId Values::sum(ValueId a, ValueId b) {
  const std::uint64_t key = static_cast<std::uint64_t>(a) << 32 | b;
  if (const auto known = sums_.find(key); known != sums_.end()) return known->second;
  Content merged{
      .left = a,
      .right = b,
      .ordered = follows(a, b),
      .open = true,
      .one_reduction = extends_one_reduction(a, b),
      .left_fold = contents_[a].left_fold && contents_[b].has_one_term() && follows(a, b),
      .sum = sum_of(a, b)};
  for (const ValueId part : {a, b}) {
    const Content& content = contents_[part];
    if (!content.has_terms) continue;
    merged.first = merged.has_terms ? std::min(merged.first, content.first) : content.first;
    merged.last = merged.has_terms ? std::max(merged.last, content.last) : content.last;
    merged.has_terms = true;
  }
  return sums_[key] = intern(merged);
}

ValueId Values::summed(ValueId value) {
  if (!contents_[value].open) return value;
  Content content = contents_[value];
  content.open = false;
  return intern(content);
}

ValueId Values::completed(ValueId value) {
  constexpr SumId when_stored = 0, in_its_step = 1;
  Content content = contents_[value];
  content.complete = true;
  // A sum that is divided after it was stored has been rounded twice.
  const bool rounded_once = content.open || content.has_one_term();
  content.one_reduction = content.one_reduction && rounded_once;
  content.left_fold = content.left_fold && rounded_once;
  content.sum =
      intern_sum(Growth::completed, content.sum, content.open ? in_its_step : when_stored);
  return intern(content);
}

ValueId Values::sum_of_hosts(const Contribution& first, const Hosts& hosts, bool complete) {
  const auto [known, is_new] = sums_of_hosts_.try_emplace(first, nothing);
  if (!is_new) return known->second;
  const auto add = [this](ValueId& to, ValueId next) { to = to == nothing ? next : sum(to, next); };
  ValueId total = nothing;
  for (int host = 0; host < hosts.count(); ++host) {
    ValueId of_host = nothing;
    for (const Rank rank : hosts.on(host))
      add(of_host, contribution({first.block, rank, first.index}));
    add(total, summed(of_host));
  }
  if (complete) total = completed(total);
  return known->second = summed(total);
}

const Values::Terms& Values::terms(ValueId value) const {
  const auto known = terms_.find(value);
  return known != terms_.end() ? known->second
                               : terms_.emplace(value, expanded(value)).first->second;
}

/// From the value down to its contributions: what is added has a smaller number than the sum, so
/// that each part is looked at once.
Values::Terms Values::expanded(ValueId value) const {
  std::map<Contribution, std::int64_t> found;
  std::map<ValueId, std::int64_t, std::greater<>> parts{{value, 1}};
  const auto add = [](std::int64_t& to, std::int64_t times) {
    to = std::min<std::int64_t>(to + times, std::numeric_limits<int>::max());
  };
  while (!parts.empty()) {
    const auto [part, times] = *parts.begin();
    parts.erase(parts.begin());
    const Content& content = contents_[part];
    if (!content.is_sum() && content.has_terms) add(found[content.first], times);
    for (const ValueId below : {content.left, content.right})
      if (below != nothing) add(parts[below], times);
  }
  Terms terms;
  for (const auto& [contribution, times] : found)
    terms.emplace_back(contribution, static_cast<int>(times));
  return terms;
}

}  // namespace capstan::proof
