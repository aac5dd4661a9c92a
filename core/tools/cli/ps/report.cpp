// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/ps/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/engine/control/rank_names.hpp"
#include "perf/measure/folded.hpp"
#include "perf/measure/table.hpp"

namespace capstan::cli {
namespace {

/// One word for what a rank does.
std::string_view state_of(const SeenRank& rank) {
  const RankView& view = rank.view;
  if (view.left) return "left";
  if (view.departed) return "gone";
  if (view.stopped) return "stopped";
  if (view.wait.gave_up) return "gave up";
  if (view.wait.kind != Wait::Kind::none) return view.quiet ? "silent" : "waits";
  return view.moved_lately ? "calls" : rank.begun > rank.finished ? "in a call" : "elsewhere";
}

/// "for rank 3, 12.4 s: all_reduce(8 x f32, sum) #640, step 2 of 4".
std::string doing_of(const SeenRank& rank) {
  const Wait& wait = rank.view.wait;
  if (rank.view.departed) return *rank.view.departed;
  if (wait.kind != Wait::Kind::none)
    return fmt::format("for {}, {}: {}", list_of(wait.peers), capstan::seconds(wait.waited),
                       to_string(wait));
  if (rank.call.empty()) return "no call of the world yet";
  return fmt::format("{} {} #{}", rank.begun > rank.finished ? "in" : "after", rank.call,
                     rank.begun);
}

/// The end of a long command line says less than its begin.
std::string shortened(std::string text, int width) {
  const auto most = static_cast<std::size_t>(std::max(width, 8));
  if (text.size() > most) text = text.substr(0, most - 3) + "...";
  return text;
}

std::string to_text(const Stacks& stacks, const SeenRank& of) {
  const std::string whose = fmt::format("of rank {} (process {})", of.rank, of.process);
  if (stacks.by.empty()) return fmt::format("\nNo stacks {}: {}\n", whose, stacks.text);
  return fmt::format("\nStacks {}, by {}:\n{}", whose, stacks.by, stacks.text);
}

}  // namespace

std::string to_text(const SeenJob& job, int width) {
  std::string text = shortened(fmt::format("{:016x}  {}", job.world, job.command), width) + "\n";
  text += fmt::format("{} of {} ranks are here\n", job.here.size(), job.ranks);
  for (const RanksOnHost& other : job.other_hosts)
    text +=
        fmt::format("{}: `capstan ps` there shows them as {:016x}\n", to_string(other), job.world);
  if (!job.verdict.empty()) text += fmt::format("Verdict: {}.\n", job.verdict);
  if (!job.chain.empty()) text += job.chain + "\n";
  if (job.verdict.empty()) text += "No rank waits for long.\n";
  for (const SeenRank* const rank : living_culprits(job))
    if (!rank->stacks) text += fmt::format("Its stacks: capstan ps {} --stacks\n", rank->process);
  const perf::Table table{
      {{"rank", "", 6}, {"process", "", 8}, {"state", "", 9}, {"calls", "", 9, 1}}, width};
  text = perf::folded(text, width) + table.names("  waits, or does");
  for (const SeenRank& rank : job.here) {
    std::string line =
        table.line({fmt::to_string(rank.rank), rank.process ? fmt::to_string(rank.process) : "-",
                    std::string{state_of(rank)}, fmt::to_string(rank.finished)});
    line.pop_back();
    text += perf::folded(fmt::format("{}  {}\n", line, doing_of(rank)), width);
  }
  for (const SeenRank* const rank : living_culprits(job))
    if (rank->stacks) text += to_text(*rank->stacks, *rank);
  return text;
}

nlohmann::json to_json(const SeenJob& job) {
  auto ranks = nlohmann::json::array();
  for (const SeenRank& rank : job.here) {
    const Wait& wait = rank.view.wait;
    nlohmann::json each{{"rank", rank.rank},         {"process", rank.process},
                        {"state", state_of(rank)},   {"begun", rank.begun},
                        {"finished", rank.finished}, {"call", rank.call}};
    if (wait.kind != Wait::Kind::none) {
      auto peers = nlohmann::json::array();
      for (const Rank peer : wait.peers) peers.push_back(peer.value());
      each["waits"] = {{"in", to_string(wait)},
                       {"for", peers},
                       {"seconds", static_cast<double>(wait.waited.count()) / 1e3}};
    }
    if (rank.stacks) each["stacks"] = {{"by", rank.stacks->by}, {"text", rank.stacks->text}};
    ranks.push_back(std::move(each));
  }
  auto culprits = nlohmann::json::array();
  for (const Culprit& culprit : job.culprits) culprits.push_back(culprit.world_rank.value());
  auto others = nlohmann::json::array();
  for (const RanksOnHost& other : job.other_hosts) {
    auto numbers = nlohmann::json::array();
    for (const auto& [first, last] : other.runs)
      for (int rank = first; rank <= last; ++rank) numbers.push_back(rank);
    others.push_back({{"host", other.host}, {"ranks", numbers}});
  }
  return {{"world", fmt::format("{:016x}", job.world)},
          {"command", job.command},
          {"ranks", job.ranks},
          {"verdict", job.verdict},
          {"culprits", culprits},
          {"elsewhere", job.elsewhere},
          {"other_hosts", others},
          {"here", ranks}};
}

}  // namespace capstan::cli
