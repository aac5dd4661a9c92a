#include "perf/compare/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "perf/compare/protocol.hpp"

namespace capstan::cli {
namespace {

/// Cells that the next larger ones were faster than; one that failed says nothing.
void doubt_growth(std::span<const Duel> duels, std::vector<Comparison>& doubts) {
  constexpr double clearly = 1.1;
  for (const Duel& duel : duels) {
    const Duel* next = nullptr;
    for (const Duel& other : duels)
      if (other.collective == duel.collective && other.ranks == duel.ranks &&
          other.size > duel.size && (!next || other.size < next->size))
        next = &other;
    if (next && next->own.median > 0 && duel.own.median > next->own.median * clearly)
      doubts.push_back({.cell = &duel, .larger = next});
  }
}

void doubt_composition(std::span<const Duel> duels, std::vector<Comparison>& doubts) {
  for (const Duel& duel : duels)
    for (std::size_t parts = 0; parts < std::size(against::parts_of_all_reduce); ++parts)
      if (duel.collective == Collective::all_reduce && duel.own.median > 0)
        doubts.push_back({.cell = &duel, .parts = parts});
}

std::string name_of_other(const Comparison& comparison) {
  if (comparison.larger) return name_of(*comparison.larger);
  const auto& [first, second] = against::parts_of_all_reduce[comparison.parts];
  return fmt::format("{} and {}", name_of(first), name_of(second));
}

/// "# all_reduce takes 0.41 to 0.93 times as long as reduce and broadcast in its place".
std::string parts_line(std::span<const Comparison> comparisons, std::size_t parts) {
  double least = 0, most = 0;
  std::string name;
  for (const Comparison& comparison : comparisons) {
    if (comparison.larger || comparison.parts != parts) continue;
    least = name.empty() ? comparison.times : std::min(least, comparison.times);
    most = std::max(most, comparison.times);
    name = name_of_other(comparison);
  }
  if (name.empty()) return {};
  return fmt::format("# all_reduce takes {:.2f} to {:.2f} times as long as {} in its place\n",
                     least, most, name);
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

std::vector<Comparison> compare_cells(std::span<const Duel> duels, const Compare& compare) {
  std::vector<Comparison> doubts, measured;
  doubt_growth(duels, doubts);
  doubt_composition(duels, doubts);
  for (Comparison& doubt : doubts) {
    doubt.times = compare(doubt).value_or(0);
    if (doubt.times > 0) measured.push_back(doubt);
  }
  return measured;
}

Verdict verdict_on(const std::vector<Duel>& duels, std::vector<Comparison> comparisons) {
  Verdict verdict{.comparisons = std::move(comparisons)};
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
  std::string line =
      fmt::format("{:>15} {:>5} {:>6} {:>11.2f} {:>5.0f}% {:>11.2f} {:>7.2f}",
                  name_of(duel.collective), duel.ranks, short_size(duel.size), duel.own.median,
                  100 * duel.own.spread, duel.bound.median, duel.times_bound);
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
  for (std::size_t parts = 0; parts < std::size(against::parts_of_all_reduce); ++parts)
    text += parts_line(verdict.comparisons, parts);
  text += fmt::format("# cliffs: {}\n",
                      std::ranges::count_if(verdict.comparisons, &Comparison::is_cliff));
  for (const Comparison& comparison : verdict.comparisons)
    if (comparison.is_cliff())
      text += fmt::format("#   {} takes {:.2f} times as long as {}\n", name_of(*comparison.cell),
                          comparison.times, name_of_other(comparison));
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
    if (duel.times_bound > 0) cells.back()["times_bound"] = duel.times_bound;
    if (duel.ratio()) cells.back()["ratio"] = *duel.ratio();
  }
  nlohmann::json lost = nlohmann::json::array();
  for (const Duel* duel : verdict.lost) lost.push_back(name_of(*duel));
  nlohmann::json comparisons = nlohmann::json::array();
  for (const Comparison& comparison : verdict.comparisons)
    comparisons.push_back({{"cell", name_of(*comparison.cell)},
                           {"other", name_of_other(comparison)},
                           {"times", comparison.times},
                           {"cliff", comparison.is_cliff()}});
  return {{"cells", cells},
          {"geometric_mean", verdict.geometric_mean},
          {"lost", lost},
          {"comparisons", comparisons}};
}

}  // namespace capstan::cli
