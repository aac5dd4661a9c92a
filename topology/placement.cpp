// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "capstan/error.hpp"
#include "topology/machine.hpp"

namespace capstan {
namespace {

using Cores = std::span<const Core>;

/// The parts of the machine over which ranks are spread, from the outside in.
constexpr std::array spread_levels{&Core::package, &Core::numa_node, &Core::l3, &Core::l2};

/// Splits `cores` where `place` changes.
std::vector<Cores> parts_of(Cores cores, int Core::* place) {
  std::vector<Cores> parts;
  while (!cores.empty()) {
    const auto leaves = [&](const Core& core) { return core.*place != cores.front().*place; };
    const auto length =
        static_cast<std::size_t>(std::ranges::find_if(cores, leaves) - cores.begin());
    parts.push_back(cores.first(length));
    cores = cores.subspan(length);
  }
  return parts;
}

/// Divides ranks as evenly as possible, but gives no part more ranks than cores; all ranks fit.
std::vector<int> even_shares(const std::vector<Cores>& parts, int ranks) {
  std::vector<int> shares(parts.size(), 0);
  while (ranks > 0)
    for (std::size_t i = 0; i < parts.size() && ranks > 0; ++i)
      if (shares[i] < static_cast<int>(parts[i].size())) ++shares[i], --ranks;
  return shares;
}

/// Appends a core for each of `ranks` ranks, which are no more than the cores.
void spread(Cores cores, int ranks, std::size_t level, std::vector<CpuSet>& placed) {
  if (level == spread_levels.size()) {
    for (const Core& core : cores.first(static_cast<std::size_t>(ranks)))
      placed.push_back(core.processing_units);
    return;
  }
  const auto parts = parts_of(cores, spread_levels[level]);
  const auto shares = even_shares(parts, ranks);
  for (std::size_t i = 0; i < parts.size(); ++i) spread(parts[i], shares[i], level + 1, placed);
}

}  // namespace

std::vector<CpuSet> place_ranks(const Machine& machine, int ranks) {
  if (ranks < 1)
    throw InvalidArgument(fmt::format("cannot place {} ranks: there is at least one", ranks));
  std::vector<CpuSet> placed;
  const int cores = static_cast<int>(machine.cores().size());
  for (int left = ranks; left > 0; left -= cores)
    spread(machine.cores(), std::min(left, cores), 0, placed);
  return placed;
}

CpuSet spare_core(const Machine& machine, std::span<const CpuSet> bindings, int rank) {
  CpuSet taken;
  for (const CpuSet& binding : bindings) taken = taken | binding;
  std::vector<CpuSet> spare;
  for (const Core& core : machine.every_core())
    if (!core.processing_units.intersects(taken)) spare.push_back(core.processing_units);
  if (spare.empty()) return {};
  const CpuSet& own = bindings[static_cast<std::size_t>(rank)];
  std::ranges::rotate(spare, spare.begin() + rank % static_cast<std::ptrdiff_t>(spare.size()));
  if (own.empty()) return spare.front();
  return *std::ranges::min_element(
      spare, {}, [&](const CpuSet& core) { return proximity(machine, own, core); });
}

std::string_view name_of(Proximity proximity) {
  switch (proximity) {
    case Proximity::same_core:
      return "same core";
    case Proximity::same_l2:
      return "same L2";
    case Proximity::same_l3:
      return "same L3";
    case Proximity::same_package:
      return "same package";
    case Proximity::same_machine:
      break;
  }
  return "same machine";
}

Proximity proximity(const Machine& machine, const CpuSet& a, const CpuSet& b) {
  if (a.empty() || b.empty())
    throw InvalidArgument("a rank bound to no processor is near nobody: pass its binding");
  const CpuSet both = a | b;
  const Core* first = machine.core_of(*both.begin());
  const auto all_share = [&](int Core::* place) {
    return std::ranges::all_of(both, [&](unsigned unit) {
      const Core* core = machine.core_of(unit);
      return core != nullptr && first->*place != Core::none && core->*place == first->*place;
    });
  };
  constexpr std::pair<int Core::*, Proximity> nearest_first[] = {
      {&Core::index, Proximity::same_core},
      {&Core::l2, Proximity::same_l2},
      {&Core::l3, Proximity::same_l3},
      {&Core::package, Proximity::same_package}};
  for (const auto& [place, result] : nearest_first)
    if (all_share(place)) return result;
  return Proximity::same_machine;
}

}  // namespace capstan
