#include "algorithms/tree.hpp"

#include <ranges>

namespace capstan {

void reduce_up(ScheduleBuilder& s, const TreePlace& place, Range range, int slots) {
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
    s.reduce(s.output(range), sources);
  if (place.parent)
    s.send(*place.parent, landings[static_cast<std::size_t>(place.slot)],
           leaf ? sources.front() : s.output(range));
}

void broadcast_down(ScheduleBuilder& s, const TreePlace& place, Range range) {
  if (place.parent) s.wait(*place.parent);
  // The largest subtree first: it has the longest way to go.
  for (const auto& child : place.children | std::views::reverse)
    if (child) s.send(*child, s.output(range), s.output(range));
}

}  // namespace capstan
