#include "algorithms/two_level.hpp"

#include <algorithm>

namespace capstan {
namespace {

std::vector<Rank> column_of(const Hosts& hosts, Rank self) {
  const std::vector<Rank> row = hosts.on(hosts.host_of(self));
  const auto place = std::ranges::find(row, self) - row.begin();
  std::vector<Rank> column;
  for (int host = 0; host < hosts.count(); ++host)
    column.push_back(hosts.on(host)[static_cast<std::size_t>(place)]);
  return column;
}

}  // namespace

Grid::Grid(const Group& group) : Grid(group, group.hosts()) {}

Grid::Grid(const Group& group, const Hosts& hosts)
    : row_(group), column_({group.self()}, group.self()) {
  if (hosts.single() || !hosts.even()) return;
  row_ = Group{hosts.on(hosts.host_of(group.self())), group.self()};
  column_ = Group{column_of(hosts, group.self()), group.self()};
}

Leaders::Leaders(const Group& group, int root) : self_(group.self()), leader_(self_) {
  const Hosts hosts = group.hosts();
  // On a single host the group may be any list of ranks.
  const auto on = [&](int host) {
    if (!hosts.single()) return hosts.on(host);
    std::vector<Rank> all;
    for (int i = 0; i < group.size(); ++i) all.push_back(group[i]);
    return all;
  };
  host_ = hosts.single() ? 0 : hosts.host_of(self_);
  root_host_ = hosts.single() ? 0 : hosts.host_of(group[root]);
  for (int host = 0; host < hosts.count(); ++host)
    leaders_.push_back(host == root_host_ ? group[root] : on(host).front());
  leader_ = leaders_[static_cast<std::size_t>(host_)];
  if (!leads()) return;
  for (const Rank rank : on(host_))
    if (rank != self_) followers_.push_back(rank);
}

}  // namespace capstan
