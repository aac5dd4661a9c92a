#include "capstan/hosts.hpp"

#include <algorithm>
#include <map>

namespace capstan {

Hosts::Hosts(std::vector<int> host_of)
    : ranks_(static_cast<int>(host_of.size())), host_of_(std::move(host_of)) {
  std::map<int, int> numbers;
  for (int rank = 0; rank < ranks_; ++rank) {
    int& host = host_of_[static_cast<std::size_t>(rank)];
    host = numbers.try_emplace(host, static_cast<int>(numbers.size())).first->second;
    members_.resize(numbers.size());
    members_[static_cast<std::size_t>(host)].push_back(Rank{rank});
  }
  if (members_.size() == 1) host_of_.clear(), members_.clear();
}

std::vector<Rank> Hosts::on(int host) const {
  if (!host_of_.empty()) return members_[static_cast<std::size_t>(host)];
  std::vector<Rank> all;
  for (int rank = 0; rank < ranks_; ++rank) all.push_back(Rank{rank});
  return all;
}

bool Hosts::even() const {
  return std::ranges::all_of(members_,
                             [&](const auto& m) { return m.size() == members_[0].size(); });
}

}  // namespace capstan
