// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/tools/cli/simulate/loads.hpp"
#include "core/tools/cli/simulate/scenario.hpp"
#include "perf/report/page.hpp"

namespace capstan::cli {
namespace {

/// Candidates that were simulated, and where the time of their critical paths goes; and those of
/// which a bound alone says that they are no faster.
report::Bars candidates_of(const Scenario& scenario) {
  report::Bars bars{
      .title = "Candidates: time until the slowest rank has ended, by parts",
      .unit = "microseconds",
      .parts = {"overhead", "work", "transfer", "latency", "queueing", "late", "at least"}};
  for (const Way& way : scenario.ways()) {
    if (!way.time && way.least <= 0) continue;
    const bool fastest = &way == &scenario.ways().front();
    const TimeSplit& split = way.split;
    bars.bars.push_back(
        {.name = (fastest ? "* " : "") + full_name(way.call.algorithm->name, way.call.protocol),
         .parts = {us(split.overhead), us(split.work), us(split.transfer), us(split.latency),
                   us(split.queueing), us(split.late), way.time ? 0 : us(way.least)},
         .note = way.verdict});
  }
  return bars;
}

/// How busy the links of each class are, and the busiest of them.
report::Bars load_of(const Scenario& scenario) {
  report::Bars bars{.title = "Load on the links: share of the time in which they are busy",
                    .unit = "%",
                    .parts = {"mean of the links in use"},
                    .compared = "the busiest"};
  const double percent = 100 / scenario.best().run.time;
  for (const ClassLoad& load : loads_of(scenario))
    bars.bars.push_back(
        {.name = load.name,
         .parts = {load.busy / load.used * percent},
         .compared = load.most.busy * percent,
         .note =
             fmt::format("{} in use carried {}; {} carried {}", load.used, amount(load.bytes),
                         link_name(scenario.cluster(), load.most.link), amount(load.most.bytes))});
  return bars;
}

report::Table busiest_links(const Scenario& scenario) {
  report::Table table{.title = "The busiest links", .head = {"link", "carried", "busy, us"}};
  for (const LinkLoad& load : busiest(scenario))
    table.rows.push_back({link_name(scenario.cluster(), load.link), amount(load.bytes),
                          fmt::format("{:.2f}", us(load.busy))});
  return table;
}

}  // namespace

std::string chart_page(const Scenario& scenario, const report::Facts& facts) {
  const Way& way = scenario.ways().front();
  const Hosts& hosts = scenario.cluster().hosts;
  report::Page page{fmt::format("{}, {} bytes, simulated", to_string(scenario.call()),
                                scenario.call().extent(hosts.ranks()).value()),
                    fmt::format("Fastest: {} ({}), {}: {:.2f} us. No rank has run.",
                                way.call.algorithm->name, way.call.algorithm->summary,
                                name_of(way.call.protocol), us(scenario.best().time))};
  page.add_fact("ranks", fmt::format("{}, hosts: {}", hosts.ranks(), hosts.count()));
  if (!scenario.hosts_summary().empty()) page.add_fact("hosts", scenario.hosts_summary());
  if (!hosts.single()) page.add_fact("network", scenario.cluster().fabric->description());
  page.add_facts(facts);
  page.add(candidates_of(scenario));
  if (!scenario.best().run.loads.empty()) page.add(load_of(scenario));
  page.add(report::Drawing{.title = "Ranks over time", .svg = picture(scenario)});
  if (const report::Table table = busiest_links(scenario); !table.rows.empty()) page.add(table);
  return page.html();
}

}  // namespace capstan::cli
