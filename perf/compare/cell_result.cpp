// SPDX-License-Identifier: Apache-2.0
#include "perf/compare/cell_result.hpp"

#include <algorithm>

namespace capstan::perf {

const CellResult::Peer* CellResult::best_of(const std::vector<Peer>& peers) {
  const auto best =
      std::ranges::min_element(peers, {}, [](const Peer& peer) { return peer.ratio; });
  return best == peers.end() ? nullptr : &*best;
}

bool CellResult::is_noise(const Peer* best) {
  if (!best || best->ratio <= 0) return false;
  const double half = best->ratio_spread / 2;
  return best->ratio * (1 - half) <= 1 && best->ratio * (1 + half) >= 1;
}

std::optional<double> CellResult::ratio_of(const Times& own, const Peer* best) {
  if (own.median <= 0 || !best || best->ratio <= 0) return std::nullopt;
  return best->ratio;
}

}  // namespace capstan::perf
