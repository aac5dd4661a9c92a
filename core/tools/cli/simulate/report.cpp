// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/tools/cli/simulate/loads.hpp"
#include "core/tools/cli/simulate/scenario.hpp"

namespace capstan::cli {
namespace {

std::string how_many(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string full_name(const Way& way) {
  return capstan::full_name(way.call.algorithm->name, way.call.protocol);
}

std::string simulated_text(const Forecast& best) {
  const RankClasses& classes = best.run.classes;
  std::string text =
      classes.all() ? fmt::format("all {} ranks", classes.ranks)
                    : fmt::format("{} for all {}, as they do the same",
                                  how_many(static_cast<std::uint64_t>(classes.simulated), "rank"),
                                  classes.ranks);
  if (best.simulated_blocks < best.blocks)
    text += fmt::format(", {} of {} blocks; the others take as long as the last of these",
                        best.simulated_blocks, best.blocks);
  return text + fmt::format("; {}, {}", how_many(best.run.steps, "step"),
                            how_many(best.run.messages, "message"));
}

/// Words behind a beginning, in lines of at most 80 characters.
std::string wrapped(std::string line, const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (line.size() + 1 + word.size() > 80)
      text += std::exchange(line, std::string(13, ' ')) + "\n";
    line += " " + word;
  }
  return text + line + "\n";
}

std::string split_text(const TimeSplit& split) {
  std::string text;
  const std::pair<std::string_view, double> parts[] = {
      {"overhead", split.overhead}, {"work", split.work},         {"transfer", split.transfer},
      {"latency", split.latency},   {"queueing", split.queueing}, {"late", split.late}};
  for (const auto& [name, time] : parts)
    if (time >= 0.5) text += fmt::format("{}{} {:.2f}", text.empty() ? "" : " + ", name, us(time));
  return text;
}

std::string candidates_text(const Scenario& scenario) {
  std::string text = fmt::format("\n  {:<36} {:>14}  {}\n", "candidate", "microseconds", "verdict");
  std::map<std::string, std::vector<std::string>> impossible;
  for (const Way& way : scenario.ways()) {
    const bool fastest = &way == &scenario.ways().front();
    if (!way.time && way.least <= 0) {
      impossible[way.verdict].push_back(full_name(way));
      continue;
    }
    text += fmt::format(
        "{} {:<36} {:>14}  {}\n", fastest ? '*' : ' ', full_name(way),
        way.time ? fmt::format("{:.2f}", us(*way.time)) : fmt::format(">= {:.2f}", us(way.least)),
        way.verdict);
    if (way.time && !fastest) text += fmt::format("    {}\n", split_text(way.split));
  }
  for (const auto& [reason, names] : impossible)
    text += wrapped(fmt::format("not possible: {}:", reason), names);
  return text;
}

std::string loads_text(const Scenario& scenario) {
  if (scenario.best().run.loads.empty()) return "";
  std::string text = fmt::format("\n{:<12} {:>8} {:>10}  {:>9}  {}\n", "links", "used", "bytes",
                                 "mean busy", "busiest");
  const double time = scenario.best().run.time;
  const auto percent = [&](double busy) { return fmt::format("{:.1f} %", busy / time * 100); };
  for (const ClassLoad& load : loads_of(scenario))
    text += fmt::format("{:<12} {:>8} {:>10}  {:>9}  {}, {}, {}\n", load.name, load.used,
                        amount(load.bytes), percent(load.busy / load.used),
                        link_name(scenario.cluster(), load.most.link), amount(load.most.bytes),
                        percent(load.most.busy));
  return text;
}

std::string hop_text(const PathHop& hop) {
  const std::string queued =
      hop.queueing >= 0.5 ? fmt::format(", {:.2f} of it queued", us(hop.queueing)) : "";
  return fmt::format("{:>12.2f} {:>12.2f}  rank {} -> rank {}, {}, step {}{}\n", us(hop.sent),
                     us(hop.received), hop.from.value(), hop.to.value(), amount(hop.bytes),
                     hop.step, queued);
}

std::string path_text(const Scenario& scenario, const CriticalPath& path) {
  const auto shown = static_cast<std::size_t>(scenario.options().path), all = path.hops.size();
  std::string text = fmt::format("\ncritical path: {}\n{:>12} {:>12}\n", how_many(all, "message"),
                                 "sent us", "received us");
  for (std::size_t i = 0; i < all; ++i) {
    if (all > shown && i == (shown + 1) / 2) {
      text += fmt::format("{:>12} {:>12}  {} more\n", "...", "...", all - shown);
      i = all - shown / 2;
      if (i >= all) break;
    }
    text += hop_text(path.hops[i]);
  }
  return text;
}

std::string rounding_text(const Scenario& scenario) {
  const Call &asked = scenario.call(), &simulated = scenario.best().call;
  if (asked.shape.count == simulated.shape.count) return "";
  const int ranks = scenario.options().ranks;
  return fmt::format(
      "rounded:   to {} bytes, so that all ranks do the same (--every-rank: do not)\n",
      simulated.extent(ranks).value());
}

/// A late or slow rank makes the call longer than the bound knows.
std::string bound_text(const Scenario& scenario) {
  const PhysicalBound bound = scenario.bound();
  if (bound.limited_by.empty()) return "";
  return fmt::format(
      "bound:     {:.2f} us whatever the algorithm, by each {}; this takes {:.2f} times as long\n",
      us(bound.time), bound.limited_by, scenario.best().time / bound.time);
}

double spread_of(const ClusterRun& run) {
  const auto [first, last] = std::ranges::minmax(run.finished);
  return last - first;
}

nlohmann::json to_json(const TimeSplit& split) {
  return {{"overhead", us(split.overhead)}, {"work", us(split.work)},
          {"transfer", us(split.transfer)}, {"latency", us(split.latency)},
          {"queueing", us(split.queueing)}, {"late", us(split.late)}};
}

/// The parts of the whole time, and the messages of the blocks that were simulated.
nlohmann::json to_json(const CriticalPath& path, const TimeSplit& split) {
  nlohmann::json hops = nlohmann::json::array();
  for (const PathHop& hop : path.hops)
    hops.push_back({{"from", hop.from.value()},
                    {"to", hop.to.value()},
                    {"bytes", hop.bytes},
                    {"sent", us(hop.sent)},
                    {"received", us(hop.received)},
                    {"queueing", us(hop.queueing)},
                    {"step", hop.step}});
  nlohmann::json json = to_json(split);
  json["messages"] = std::move(hops);
  return json;
}

nlohmann::json candidates_json(const Scenario& scenario) {
  nlohmann::json all = nlohmann::json::array();
  for (const Way& way : scenario.ways()) {
    nlohmann::json& json =
        all.emplace_back(nlohmann::json{{"algorithm", way.call.algorithm->name},
                                        {"protocol", word_for(way.call.protocol)},
                                        {"time", nullptr},
                                        {"verdict", way.verdict}});
    if (way.time) json["time"] = us(*way.time), json["parts"] = to_json(way.split);
    if (way.least > 0) json["at_least"] = us(way.least);
  }
  return all;
}

nlohmann::json links_json(const Scenario& scenario) {
  nlohmann::json classes = nlohmann::json::array(), links = nlohmann::json::array();
  const auto link_json = [&](const LinkLoad& load) {
    return nlohmann::json{{"name", link_name(scenario.cluster(), load.link)},
                          {"bytes", load.bytes},
                          {"busy", us(load.busy)}};
  };
  for (const ClassLoad& load : loads_of(scenario))
    classes.push_back({{"class", load.name},
                       {"used", load.used},
                       {"bytes", load.bytes},
                       {"busy", us(load.busy)},
                       {"busiest", link_json(load.most)}});
  for (const LinkLoad& load : busiest(scenario)) links.push_back(link_json(load));
  return {{"classes", std::move(classes)}, {"busiest", std::move(links)}};
}

}  // namespace

std::string to_text(const Scenario& scenario) {
  const Forecast& best = scenario.best();
  const Way& way = scenario.ways().front();
  const Hosts& hosts = scenario.cluster().hosts;
  const CriticalPath path = scenario.critical_path();
  std::string text = fmt::format("{}, {} bytes, on {} and {}\n", to_string(scenario.call()),
                                 scenario.call().extent(hosts.ranks()).value(),
                                 how_many(static_cast<std::uint64_t>(hosts.ranks()), "rank"),
                                 how_many(static_cast<std::uint64_t>(hosts.count()), "host"));
  if (!scenario.hosts_summary().empty())
    text += fmt::format("hosts:     {}\n", scenario.hosts_summary());
  if (!hosts.single())
    text += fmt::format("network:   {}\n", scenario.cluster().fabric->description());
  text += fmt::format("algorithm: {} ({}), {}, {}\n", way.call.algorithm->name,
                      way.call.algorithm->summary, name_of(way.call.protocol),
                      how_many(best.blocks, "block"));
  if (scenario.rule())
    text += fmt::format("asked for: by the rule {} (CAPSTAN_ALGORITHM)\n", scenario.rule()->text);
  text += fmt::format("simulated: {}\n{}", simulated_text(best), rounding_text(scenario));
  text += fmt::format("time:      {:.2f} us\n", us(best.time));
  text += fmt::format("slowest:   rank {}; all end within {:.2f} us\n", best.run.slowest.value(),
                      us(spread_of(best.run)));
  text += fmt::format("its time:  {}\n", split_text(way.split));
  text += bound_text(scenario);
  if (scenario.ways().size() > 1) text += candidates_text(scenario);
  if (scenario.options().explains)
    return text + fmt::format("the library itself would take {}\n", scenario.own_choice());
  text += loads_text(scenario);
  for (const LinkLoad& load : busiest(scenario))
    text +=
        fmt::format("  {:<34} {:>10}  busy {:.2f} us\n", link_name(scenario.cluster(), load.link),
                    amount(load.bytes), us(load.busy));
  if (scenario.options().path > 0 && !path.hops.empty()) text += path_text(scenario, path);
  return text;
}

std::string to_json(const Scenario& scenario) {
  const Forecast& best = scenario.best();
  const Way& way = scenario.ways().front();
  const int ranks = scenario.cluster().hosts.ranks();
  nlohmann::json json{
      {"call", to_string(scenario.call())},
      {"bytes", scenario.call().extent(ranks).value()},
      {"simulated_bytes", best.call.extent(ranks).value()},
      {"ranks", ranks},
      {"hosts", scenario.cluster().hosts.count()},
      {"network", scenario.cluster().fabric->description()},
      {"algorithm", way.call.algorithm->name},
      {"protocol", word_for(way.call.protocol)},
      {"time", us(best.time)},
      {"bound", {{"time", us(scenario.bound().time)}, {"by", scenario.bound().limited_by}}},
      {"blocks", best.blocks},
      {"simulated_blocks", best.simulated_blocks},
      {"simulated_ranks", best.run.classes.simulated},
      {"steps", best.run.steps},
      {"messages", best.run.messages},
      {"slowest_rank", best.run.slowest.value()},
      {"end_within", us(spread_of(best.run))},
      {"critical_path", to_json(scenario.critical_path(), way.split)},
      {"candidates", candidates_json(scenario)},
      {"links", links_json(scenario)}};
  if (!scenario.hosts_summary().empty()) json["hosts_summary"] = scenario.hosts_summary();
  if (scenario.rule()) json["rule"] = scenario.rule()->text;
  if (scenario.options().explains) json["own_choice"] = scenario.own_choice();
  return json.dump(2) + "\n";
}

}  // namespace capstan::cli
