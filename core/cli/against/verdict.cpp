#include "core/cli/against/verdict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "core/cli/against/protocol.hpp"

namespace capstan::cli {
namespace {

constexpr double tolerance = 1.1;

const Duel* find(std::span<const Duel> duels, Collective collective, int ranks, Bytes size) {
  const auto found = std::ranges::find_if(duels, [&](const Duel& duel) {
    return duel.collective == collective && duel.ranks == ranks && duel.size == size;
  });
  return found == duels.end() ? nullptr : &*found;
}

/// Cells that the next larger ones are faster than; one that failed says nothing.
void suspect_growth(std::span<const Duel> duels, std::vector<Cliff>& cliffs) {
  for (const Duel& duel : duels) {
    const Duel* next = nullptr;
    for (const Duel& other : duels)
      if (other.collective == duel.collective && other.ranks == duel.ranks &&
          other.size > duel.size && (!next || other.size < next->size))
        next = &other;
    if (next && next->own.median > 0 && duel.own.median > next->own.median * tolerance)
      cliffs.push_back({.cell = &duel, .larger = next});
  }
}

/// All-reduces that are slower than the parts were by themselves, each in buffers of its own.
void suspect_composition(std::span<const Duel> duels, std::vector<Cliff>& cliffs) {
  for (const Duel& duel : duels)
    for (std::size_t parts = 0; parts < std::size(against::parts_of_all_reduce); ++parts) {
      if (duel.collective != Collective::all_reduce) continue;
      const auto& [first, second] = against::parts_of_all_reduce[parts];
      const Duel* a = find(duels, first, duel.ranks, duel.size);
      const Duel* b = find(duels, second, duel.ranks, duel.size);
      if (!a || !b || a->own.median <= 0 || b->own.median <= 0) continue;
      if (duel.own.median > (a->own.median + b->own.median) * tolerance)
        cliffs.push_back({.cell = &duel, .parts = parts});
    }
}

std::string to_string(const Cliff& cliff) {
  const auto& [first, second] = against::parts_of_all_reduce[cliff.parts];
  return fmt::format("{} takes {:.2f} times as long as {}", name_of(*cliff.cell), cliff.times,
                     cliff.larger
                         ? name_of(*cliff.larger)
                         : fmt::format("{} and {} of the same", name_of(first), name_of(second)));
}

nlohmann::json to_json(const Times& times) {
  return {{"median_us", times.median}, {"min_us", times.least}, {"spread", times.spread}};
}

}  // namespace

std::string short_size(Bytes size) {
  const std::uint64_t bytes = size.value();
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{}K", bytes >> 10);
  return fmt::to_string(bytes);
}

std::string name_of(const Duel& duel) {
  return fmt::format("{} of {} on {} ranks", name_of(duel.collective), short_size(duel.size),
                     duel.ranks);
}

std::vector<Cliff> find_cliffs(std::span<const Duel> duels, const Compare& compare) {
  std::vector<Cliff> suspected, confirmed;
  suspect_growth(duels, suspected);
  suspect_composition(duels, suspected);
  for (Cliff& cliff : suspected) {
    cliff.times = compare(cliff).value_or(0);
    if (cliff.times > tolerance) confirmed.push_back(cliff);
  }
  return confirmed;
}

Verdict verdict_on(const std::vector<Duel>& duels, std::vector<Cliff> cliffs) {
  Verdict verdict{.cliffs = std::move(cliffs)};
  double sum = 0;
  int count = 0;
  for (const Duel& duel : duels) {
    if (!duel.ratio()) continue;
    sum += std::log(*duel.ratio());
    ++count;
    if (!verdict.worst || *duel.ratio() < *verdict.worst->ratio()) verdict.worst = &duel;
    if (*duel.ratio() <= 1) verdict.lost.push_back(&duel);
  }
  if (count > 0) verdict.geometric_mean = std::exp(sum / count);
  return verdict;
}

std::string duel_head(const std::vector<std::string>& peers) {
  std::string head = fmt::format("#{:>14} {:>5} {:>6} {:>11} {:>6} {:>11} {:>7}", "collective",
                                 "ranks", "size", "capstan", "spread", "bound", "x bound");
  for (const std::string& name : peers) head += fmt::format(" {:>11}", name);
  return head + fmt::format(" {:>7} {:>6} {:>12}\n", "ratio", "spread", "best peer");
}

std::string duel_line(const Duel& duel, const std::vector<std::string>& peers) {
  std::string line = fmt::format("{:>15} {:>5} {:>6} {:>11.2f} {:>5.0f}% {:>11.2f} {:>7.2f}",
                                 name_of(duel.collective), duel.ranks, short_size(duel.size),
                                 duel.own.median, 100 * duel.own.spread, duel.bound.median,
                                 duel.bound.median > 0 ? duel.own.median / duel.bound.median : 0);
  for (const std::string& name : peers) {
    const auto peer = std::ranges::find(duel.peers, name, &Duel::Peer::name);
    line += peer == duel.peers.end() ? fmt::format(" {:>11}", "-")
                                     : fmt::format(" {:>11.2f}", peer->times.median);
  }
  if (const auto* best = duel.best(); duel.ratio())
    line += fmt::format(" {:>7.2f} {:>5.0f}% {:>12}", *duel.ratio(), 100 * best->ratio_spread,
                        best->player);
  if (duel.wrong > 0) line += fmt::format("  {} WRONG VALUES", duel.wrong);
  for (const Duel::Peer& peer : duel.peers)
    if (peer.wrong > 0) line += fmt::format("  {}: {} wrong", peer.player, peer.wrong);
  return line + "\n";
}

std::string summary(const Verdict& verdict) {
  std::string text;
  if (verdict.worst) {
    text += fmt::format("# ahead of the best peer {:.2f} times (geometric mean)\n",
                        verdict.geometric_mean);
    text += fmt::format("# worst: {}, {:.2f} times ({})\n", name_of(*verdict.worst),
                        *verdict.worst->ratio(), verdict.worst->best()->player);
    text += fmt::format("# cells lost: {}\n", verdict.lost.size());
    for (const Duel* duel : verdict.lost)
      text += fmt::format("#   {}: {:.2f} ({}); Capstan ran {}\n", name_of(*duel), *duel->ratio(),
                          duel->best()->player, duel->way);
  }
  text += fmt::format("# cliffs: {}\n", verdict.cliffs.size());
  for (const Cliff& cliff : verdict.cliffs) text += fmt::format("#   {}\n", to_string(cliff));
  return text;
}

nlohmann::json to_json(const std::vector<Duel>& duels, const Verdict& verdict) {
  nlohmann::json cells = nlohmann::json::array();
  for (const Duel& duel : duels) {
    nlohmann::json peers = nlohmann::json::object();
    for (const Duel::Peer& peer : duel.peers) {
      peers[peer.name] = to_json(peer.times);
      peers[peer.name]["configuration"] = peer.player;
      peers[peer.name]["ratio"] = peer.ratio;
      peers[peer.name]["ratio_spread"] = peer.ratio_spread;
      peers[peer.name]["wrong"] = peer.wrong;
    }
    cells.push_back({{"collective", name_of(duel.collective)},
                     {"ranks", duel.ranks},
                     {"bytes", duel.size.value()},
                     {"capstan", to_json(duel.own)},
                     {"bound", to_json(duel.bound)},
                     {"wrong", duel.wrong},
                     {"peers", peers}});
    cells.back()["capstan"]["way"] = duel.way;
    if (duel.ratio()) cells.back()["ratio"] = *duel.ratio();
  }
  nlohmann::json lost = nlohmann::json::array();
  for (const Duel* duel : verdict.lost) lost.push_back(name_of(*duel));
  nlohmann::json cliffs = nlohmann::json::array();
  for (const Cliff& cliff : verdict.cliffs) cliffs.push_back(to_string(cliff));
  return {{"cells", cells},
          {"geometric_mean", verdict.geometric_mean},
          {"lost", lost},
          {"cliffs", cliffs}};
}

}  // namespace capstan::cli
