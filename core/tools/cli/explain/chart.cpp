// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/explain/chart.hpp"

#include <fmt/format.h>

#include <map>

#include "core/tools/cli/explain/report.hpp"
#include "perf/report/page.hpp"

namespace capstan::cli {
namespace {

report::Bars bars_of(const Survey& survey) {
  report::Bars bars{.title = "Candidates: predicted time of the slowest rank, by parts",
                    .unit = "microseconds",
                    .parts = {"latency", "bandwidth", "reduction", "waiting"},
                    .compared = "measured (profile)"};
  for (const SurveyedWay& way : survey.ways) {
    if (!way.predicted) continue;
    const PredictedTime time = *way.predicted * 1e-3;
    bars.bars.push_back(
        {.name = (way.chosen ? "* " : "") + full_name(way.algorithm->name, way.protocol),
         .parts = {time.latency, time.bandwidth, time.reduction, time.waiting},
         .note = way.verdict});
    if (way.measured) bars.bars.back().compared = *way.measured / 1000;
  }
  return bars;
}

/// The candidates that cannot run, by reason.
report::Table impossible_of(const Survey& survey) {
  std::map<std::string, std::string> names;
  for (const SurveyedWay& way : survey.ways)
    if (!way.predicted) names[way.verdict] += full_name(way.algorithm->name, way.protocol) + " ";
  report::Table table{.title = "Not possible", .head = {"why", "candidates"}};
  for (const auto& [reason, all] : names) table.rows.push_back({reason, all});
  return table;
}

}  // namespace

std::string chart_page(const Question& question, const Survey& survey, const report::Facts& facts) {
  const nlohmann::json answer = to_json(question, survey);
  const Choice& choice = survey.decision.choice;
  report::Page page{
      fmt::format("{}, {} bytes", to_string(question.call), answer["bytes"].get<std::uint64_t>()),
      fmt::format("{}: {} ({}), {}, because of {}.{}",
                  survey.refusal.empty() ? "Chosen" : "Refused", choice.algorithm->name,
                  choice.algorithm->summary, choice.manner(), choice.reason,
                  survey.refusal.empty() ? "" : " Such calls fail: " + survey.refusal)};
  page.add_fact("ranks",
                fmt::format("{}, hosts: {}", question.hosts().ranks(), question.hosts().count()));
  page.add_fact("decided by", answer["source"].get<std::string>());
  for (const std::string& rule : survey.rules_passed_over)
    page.add_fact("a rule that cannot be followed", rule);
  page.add_facts(facts);
  page.add(bars_of(survey));
  if (question.hosts().ranks() <= most_drawn)
    page.add(report::Drawing{.title = "The chosen schedule over time",
                             .svg = space_time_svg(question, choice)});
  if (const report::Table table = impossible_of(survey); !table.rows.empty()) page.add(table);
  return page.html();
}

}  // namespace capstan::cli
