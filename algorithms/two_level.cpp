// SPDX-License-Identifier: Apache-2.0
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

std::vector<Span> landings(ScheduleBuilder& s, const Group& group, Elements length) {
  std::vector<Span> spans;
  for (int i = 0; i < group.size(); ++i) spans.push_back(s.scratch(length));
  return spans;
}

void wait_for_others(ScheduleBuilder& s, const Group& group) {
  for (int d = 1; d < group.size(); ++d) s.wait(group.right(d));
}

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
  for (int host = 0; host < hosts.count(); ++host)
    largest_host_ = std::max(largest_host_, static_cast<int>(on(host).size()));
  for (const Rank rank : on(host_))
    if (rank != leader_) followers_.push_back(rank);
  place_ = static_cast<int>(std::ranges::find(followers_, self_) - followers_.begin());
  if (!leads()) followers_.clear();
}

Counterparts::Counterparts(const Group& group) {
  const Hosts hosts = group.hosts();
  on_.resize(static_cast<std::size_t>(hosts.count()));
  for (int position = 0; position < group.size(); ++position) {
    const int host = hosts.single() ? 0 : hosts.host_of(group[position]);
    auto& members = on_[static_cast<std::size_t>(host)];
    host_of_.push_back(host);
    place_.push_back(static_cast<int>(members.size()));
    members.push_back(position);
  }
  host_ = host_of(group.position());
  row_ = on(host_);
  std::ranges::rotate(row_, row_.begin() + place(group.position()));
}

int Counterparts::of(int position, int host) const {
  const auto& members = on(host);
  return members[static_cast<std::size_t>(place(position)) % members.size()];
}

std::vector<int> Counterparts::served_by(int position) const {
  const int host = host_of(position);
  std::vector<int> served;
  for (int other = 0; other < static_cast<int>(host_of_.size()); ++other)
    if (host_of(other) != host && of(other, host) == position) served.push_back(other);
  return served;
}

int Counterparts::largest_host() const {
  std::size_t largest = 0;
  for (const auto& members : on_) largest = std::max(largest, members.size());
  return static_cast<int>(largest);
}

int Counterparts::most_served() const {
  // The first rank of a host serves as many as any other there.
  int most = 0;
  for (const auto& members : on_)
    most = std::max(most, static_cast<int>(served_by(members.front()).size()));
  return most;
}

}  // namespace capstan
