// SPDX-License-Identifier: Apache-2.0
#include "algorithms/tree.hpp"

#include <bit>
#include <ranges>

namespace capstan {

TreePlace binomial_place(const Group& group, int root) {
  const int self = group.wrap(group.position() - root);
  const auto member = [&](int i) { return group[group.wrap(root + i)]; };
  TreePlace place;
  const int depth =
      self == 0 ? binomial_slots(group.size()) : std::countr_zero(static_cast<unsigned>(self));
  if (self != 0) place.parent = member(self & (self - 1)), place.slot = depth;
  for (int slot = 0; slot < depth; ++slot) {
    const int child = self + (1 << slot);
    place.children.push_back(child < group.size() ? std::optional{member(child)} : std::nullopt);
  }
  return place;
}

int binomial_slots(int ranks) {
  return std::bit_width(static_cast<unsigned>(ranks - 1));
}

TreePlace chain_place(const Group& group, int root) {
  const int self = group.wrap(group.position() - root);
  TreePlace place;
  if (self != 0) place.parent = group.left();
  if (self + 1 < group.size()) place.children.emplace_back(group.right());
  return place;
}

void reduce_up(ScheduleBuilder& s, const TreePlace& place, Range range, int slots, Span sum) {
  std::vector<Span> landings;
  for (int slot = 0; slot < slots; ++slot) landings.push_back(s.scratch(range.length));

  std::vector<Span> sources{s.input(range)};
  for (std::size_t slot = 0; slot < place.children.size(); ++slot) {
    if (!place.children[slot]) continue;
    s.wait(*place.children[slot]);
    sources.push_back(landings[slot]);
  }

  const bool leaf = sources.size() == 1;
  if (!place.parent)
    s.complete(s.output(range), sources);
  else if (!leaf)
    s.reduce(sum, sources);
  if (place.parent)
    s.send(*place.parent, landings[static_cast<std::size_t>(place.slot)],
           leaf ? sources.front() : sum);
}

void broadcast_down(ScheduleBuilder& s, const TreePlace& place, Range range) {
  if (place.parent) s.wait(*place.parent);
  // The largest subtree first: it has the longest way to go.
  for (const auto& child : place.children | std::views::reverse)
    if (child) s.send(*child, s.output(range), s.output(range));
}

void broadcast_from_input(ScheduleBuilder& s, const TreePlace& place) {
  const Span landing = s.scratch(s.output().length);
  if (place.parent) s.wait(*place.parent);
  const Span data = place.parent ? landing : s.input();
  for (const auto& child : place.children | std::views::reverse)
    if (child) s.send(*child, landing, data);
  s.copy(s.output(), data);
}

}  // namespace capstan
