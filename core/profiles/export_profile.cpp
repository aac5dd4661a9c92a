// SPDX-License-Identifier: Apache-2.0
#include "core/profiles/export_profile.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace capstan {
namespace {

/// An algorithm, and what others call it; empty: they have none like it.
struct Counterpart {
  Collective collective;
  std::string_view ours;
  int open_mpi;  ///< the number of coll/tuned; 0: none
  std::string_view nccl, ucc;
};

constexpr std::array counterparts{
    Counterpart{Collective::all_reduce, "flat", 0, "", ""},
    Counterpart{Collective::all_reduce, "recursive_doubling", 3, "", "knomial"},
    Counterpart{Collective::all_reduce, "binomial_tree", 2, "tree", ""},
    Counterpart{Collective::all_reduce, "double_binary_tree", 0, "tree", "dbt"},
    Counterpart{Collective::all_reduce, "rabenseifner", 6, "", "sra_knomial"},
    Counterpart{Collective::all_reduce, "ring", 4, "ring", "ring"},
    Counterpart{Collective::broadcast, "flat", 1, "", ""},
    Counterpart{Collective::broadcast, "binomial", 6, "", "knomial"},
    Counterpart{Collective::broadcast, "scatter_all_gather", 9, "", "sag_knomial"},
    Counterpart{Collective::broadcast, "chain", 3, "ring", ""},
    Counterpart{Collective::reduce, "flat", 1, "", ""},
    Counterpart{Collective::reduce, "binomial", 5, "", "knomial"},
    Counterpart{Collective::reduce, "rabenseifner", 7, "", "srg"},
    Counterpart{Collective::reduce, "chain", 3, "ring", ""},
    Counterpart{Collective::all_gather, "direct", 1, "", "linear"},
    Counterpart{Collective::all_gather, "recursive_doubling", 3, "", "knomial"},
    Counterpart{Collective::all_gather, "bruck", 2, "", "bruck"},
    Counterpart{Collective::all_gather, "ring", 4, "ring", "ring"},
    Counterpart{Collective::reduce_scatter, "recursive_halving", 3, "", "knomial"},
    Counterpart{Collective::reduce_scatter, "ring", 0, "ring", "ring"},
    Counterpart{Collective::all_to_all, "direct", 1, "", ""},
    Counterpart{Collective::all_to_all, "pairwise", 2, "", "pairwise"},
    Counterpart{Collective::all_to_all, "bruck", 3, "", "bruck"},
};

/// A collective by its names elsewhere. `id` is Open MPI's number in rules files.
struct CollectiveNames {
  Collective collective;
  int id;
  std::string_view open_mpi, nccl, ucc;
};

constexpr std::array collective_table{
    CollectiveNames{Collective::all_gather, 0, "allgather", "allgather", "allgather"},
    CollectiveNames{Collective::all_reduce, 2, "allreduce", "allreduce", "allreduce"},
    CollectiveNames{Collective::all_to_all, 3, "alltoall", "", "alltoall"},
    CollectiveNames{Collective::broadcast, 7, "bcast", "broadcast", "bcast"},
    CollectiveNames{Collective::reduce, 11, "reduce", "reduce", "reduce"},
    CollectiveNames{Collective::reduce_scatter, 13, "reducescatterblock", "reducescatter",
                    "reduce_scatter"},
};

/// The fastest way that has a counterpart.
struct Found {
  const MeasuredWay* way;
  const Counterpart* counterpart;
};

template <class Has>
std::optional<Found> fastest(const MeasuredCell& cell, Has has) {
  for (const MeasuredWay& way : cell.ways)
    for (const Counterpart& counterpart : counterparts)
      if (counterpart.collective == cell.collective && counterpart.ours == way.algorithm->name &&
          has(counterpart))
        return Found{&way, &counterpart};
  return std::nullopt;
}

/// A stretch of sizes that one algorithm serves, from `from` to `to`, without `to`.
struct Stretch {
  std::uint64_t from, to;
  const MeasuredWay* way;
  const Counterpart* counterpart;
};

constexpr std::uint64_t no_end = std::numeric_limits<std::uint64_t>::max();

/// The sizes from nothing to infinity, cut half-way (by logarithms) between those that were
/// measured. Neighbours with one algorithm are one.
template <class Has>
std::vector<Stretch> stretches(const MeasuredGroup& group, Collective collective, Has has) {
  std::map<std::uint64_t, const MeasuredCell*> cells;
  for (const MeasuredCell& cell : group.cells)
    if (cell.collective == collective) cells[cell.bytes.value()] = &cell;
  std::vector<Stretch> all;
  std::uint64_t from = 0;
  for (auto cell = cells.begin(); cell != cells.end(); ++cell) {
    const auto next = std::next(cell);
    const std::uint64_t to =
        next == cells.end()
            ? no_end
            : static_cast<std::uint64_t>(
                  std::sqrt(static_cast<double>(cell->first) * static_cast<double>(next->first)));
    const auto found = fastest(*cell->second, has);
    const Counterpart* const counterpart = found ? found->counterpart : nullptr;
    if (!all.empty() && all.back().counterpart == counterpart && counterpart != nullptr)
      all.back().to = to;
    else if (to > from)
      all.push_back({from, to, found ? found->way : nullptr, counterpart});
    from = to;
  }
  return all;
}

bool in_open_mpi(const Counterpart& c) {
  return c.open_mpi > 0;
}

std::string to_open_mpi_4(const Profile& profile) {
  std::vector<std::string> collectives;
  for (const CollectiveNames& names : collective_table) {
    std::map<int, std::vector<Stretch>> by_ranks;
    for (const MeasuredGroup& group : profile.groups)
      if (auto all = stretches(group, names.collective, in_open_mpi); !all.empty())
        by_ranks[group.ranks] = std::move(all);
    if (by_ranks.empty()) continue;
    std::map<int, std::string> rules;  // by number of ranks; algorithm 0: Open MPI decides
    for (const auto& [ranks, all] : by_ranks) {
      rules[ranks] = fmt::format("{} # message sizes\n", all.size());
      for (const Stretch& each : all)
        rules[ranks] += fmt::format("{} {} 0 0 # from bytes, algorithm {}, fan, segment\n",
                                    each.from, each.counterpart ? each.counterpart->open_mpi : 0,
                                    each.counterpart ? each.counterpart->ours : "of its own");
      if (!by_ranks.contains(ranks + 1))
        rules[ranks + 1] = "1 # message sizes\n0 0 0 0 # other numbers of ranks: its own choice\n";
    }
    std::string text =
        fmt::format("{} # {}\n{} # numbers of ranks\n", names.id, names.open_mpi, rules.size());
    for (const auto& [ranks, lines] : rules) text += fmt::format("{} # ranks\n{}", ranks, lines);
    collectives.push_back(std::move(text));
  }
  return fmt::format("{} # collectives\n{}", collectives.size(), fmt::join(collectives, ""));
}

std::string to_open_mpi_6(const Profile& profile) {
  nlohmann::json collectives = nlohmann::json::object();
  for (const CollectiveNames& names : collective_table)
    for (const MeasuredGroup& group : profile.groups) {
      nlohmann::json rules = nlohmann::json::array();
      for (const Stretch& each : stretches(group, names.collective, in_open_mpi)) {
        if (!each.counterpart) continue;
        nlohmann::json rule{{"msg_size_min", each.from}, {"alg", each.counterpart->open_mpi}};
        rule["msg_size_max"] =
            each.to == no_end ? nlohmann::json("inf") : nlohmann::json(each.to - 1);
        rules.push_back(std::move(rule));
      }
      if (rules.empty()) continue;
      collectives[std::string{names.open_mpi}].push_back(
          {{"comm_size_min", group.ranks},
           {"comm_size_max", group.ranks},
           {"comm_rank_distribution", group.hosts == 1             ? "single-node"
                                      : group.hosts == group.ranks ? "one-per-node"
                                                                   : "any"},
           {"rules", std::move(rules)}});
    }
  const nlohmann::json document{
      {"rule_file_version", 3}, {"module", "tuned"}, {"collectives", std::move(collectives)}};
  return document.dump(2) + "\n";
}

std::string to_nccl(const Profile& profile) {
  std::string text =
      "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks,numPipeOps,"
      "regBuff\n";
  for (const CollectiveNames& names : collective_table)
    for (const MeasuredGroup& group : profile.groups)
      for (const Stretch& each :
           stretches(group, names.collective, [](const Counterpart& c) { return !c.nccl.empty(); }))
        if (each.counterpart && !names.nccl.empty())
          text += fmt::format(
              "{},{},{},{},{},-1,{},{},-1,-1\n", names.nccl, each.from,
              each.to == no_end ? std::uint64_t{1} << 40 : each.to - 1, each.counterpart->nccl,
              in_packets(each.way->protocol) ? "ll" : "simple", group.hosts, group.ranks);
  return text;
}

std::string to_ucc(const Profile& profile) {
  std::vector<std::string> sections;
  for (const CollectiveNames& names : collective_table)
    for (const MeasuredGroup& group : profile.groups)
      for (const Stretch& each :
           stretches(group, names.collective, [](const Counterpart& c) { return !c.ucc.empty(); }))
        if (each.counterpart)
          sections.push_back(fmt::format("{}:{}-{}:host:[{}-{}]:inf:@{}", names.ucc, each.from,
                                         each.to == no_end ? "inf" : fmt::format("{}", each.to),
                                         group.ranks, group.ranks, each.counterpart->ucc));
  return fmt::format("{}\n", fmt::join(sections, "#"));
}

}  // namespace

std::optional<TuningFormat> tuning_format_named(std::string_view word) {
  constexpr std::string_view words[] = {"nccl", "openmpi4", "openmpi6", "ucc"};
  const auto found = std::ranges::find(words, word);
  if (found == std::end(words)) return std::nullopt;
  return static_cast<TuningFormat>(found - std::begin(words));
}

std::string export_profile(const Profile& all, TuningFormat format) {
  Profile profile = all;
  std::erase_if(profile.groups, [](const MeasuredGroup& group) { return group.devices; });
  switch (format) {
    case TuningFormat::nccl:
      return to_nccl(profile);
    case TuningFormat::open_mpi_4:
      return to_open_mpi_4(profile);
    case TuningFormat::open_mpi_6:
      return to_open_mpi_6(profile);
    case TuningFormat::ucc:
      break;
  }
  return to_ucc(profile);
}

}  // namespace capstan
