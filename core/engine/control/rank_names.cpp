// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/rank_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace capstan {

RankNames::RankNames(const ByRank<int>& world_ranks, const ByRank<Process>& processes)
    : processes_(processes),
      members_(processes.size(), Rank{-1}),
      is_world_(world_ranks.size() == processes.size()) {
  std::vector<Rank> members;
  for (int rank = 0; rank < world_ranks.size(); ++rank) {
    members.emplace_back(world_ranks[Rank{rank}]);
    members_[members.back()] = Rank{rank};
    is_world_ = is_world_ && members.back() == Rank{rank};
  }
  std::ranges::sort(members);
  if (!is_world_) of_group_ = fmt::format(" of the group of {} of the world", list_of(members));
}

std::optional<Rank> RankNames::member(Rank world_rank) const {
  const Rank rank = members_[world_rank];
  return rank.value() < 0 ? std::nullopt : std::optional{rank};
}

std::string RankNames::name(Rank world_rank, const std::string& more) const {
  const auto rank = member(world_rank);
  std::string text = fmt::format("rank {}", rank ? rank->value() : world_rank.value());
  if (!rank) text += " of the world";
  std::string details =
      rank && !is_world_ ? fmt::format("rank {} of the world", world_rank.value()) : "";
  if (!more.empty()) details += (details.empty() ? "" : ", ") + more;
  return details.empty() ? text : fmt::format("{} ({})", text, details);
}

std::string RankNames::brief(Rank world_rank) const {
  return name(world_rank, "");
}

std::string RankNames::full(Rank world_rank) const {
  return name(world_rank, to_string(processes_[world_rank]));
}

Culprit RankNames::culprit(Rank world_rank, Culprit::State state) const {
  const Process& process = processes_[world_rank];
  return {.rank = member(world_rank),
          .world_rank = world_rank,
          .state = state,
          .host = process.host,
          .process_id = process.id};
}

std::string list_of(std::span<const Rank> ranks) {
  constexpr std::size_t most = 16;
  if (ranks.empty()) return "its peers";
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t listed = std::min(ranks.size(), most);
  for (std::size_t i = 0; i < listed; ++i) {
    const bool last = i + 1 == ranks.size();
    text += fmt::format("{}{}", i == 0 ? "" : last ? " and " : ", ", ranks[i].value());
  }
  if (listed < ranks.size()) text += fmt::format(" and {} more", ranks.size() - listed);
  return text;
}

}  // namespace capstan
