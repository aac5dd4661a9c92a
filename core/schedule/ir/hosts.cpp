// SPDX-License-Identifier: Apache-2.0
#include "capstan/hosts.hpp"

#include <algorithm>
#include <map>

namespace capstan {

Hosts::Hosts(std::vector<int> host_of) : ranks_(static_cast<int>(host_of.size())) {
  Map map{std::move(host_of), {}};
  std::map<int, int> numbers;
  for (int rank = 0; rank < ranks_; ++rank) {
    int& host = map.host_of[static_cast<std::size_t>(rank)];
    host = numbers.try_emplace(host, static_cast<int>(numbers.size())).first->second;
    map.members.resize(numbers.size());
    map.members[static_cast<std::size_t>(host)].push_back(Rank{rank});
  }
  if (map.members.size() > 1) map_ = std::make_shared<const Map>(std::move(map));
}

std::vector<Rank> Hosts::on(int host) const {
  if (map_) return map_->members[static_cast<std::size_t>(host)];
  std::vector<Rank> all;
  for (int rank = 0; rank < ranks_; ++rank) all.push_back(Rank{rank});
  return all;
}

int Hosts::most_on_a_host() const {
  if (!map_) return ranks_;
  std::size_t most = 0;
  for (const auto& members : map_->members) most = std::max(most, members.size());
  return static_cast<int>(most);
}

bool Hosts::even() const {
  return !map_ || std::ranges::all_of(map_->members, [&](const auto& members) {
    return members.size() == map_->members[0].size();
  });
}

bool Hosts::operator==(const Hosts& other) const {
  if (ranks_ != other.ranks_ || map_ == other.map_) return ranks_ == other.ranks_;
  return map_ && other.map_ && map_->host_of == other.map_->host_of;
}

}  // namespace capstan
