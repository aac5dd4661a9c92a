// SPDX-License-Identifier: Apache-2.0
#include "core/tools/cli/explain/report.hpp"

#include <fmt/format.h>

#include <map>

#include "perf/measure/table.hpp"

namespace capstan::cli {
namespace {

std::string memory_text(const Question& question) {
  const auto link = question.devices();
  if (!link) return "";
  return *link == DeviceLink::memory
             ? ", in memory of the device that they share"
             : fmt::format(", in memory of devices over {}", name_of(*link));
}

std::string world_of(const Question& question) {
  const Hosts& hosts = question.hosts();
  return fmt::format("{} rank{} on {} host{}", hosts.ranks(), hosts.ranks() == 1 ? "" : "s",
                     hosts.count(), hosts.count() == 1 ? "" : "s") +
         memory_text(question);
}

/// Where a decision comes from, with what may change it later.
std::string source_text(const Question& question, const Survey& survey) {
  switch (survey.decision.source) {
    case Source::rule:
      return "a rule (CAPSTAN_ALGORITHM or --rules)";
    case Source::profile:
      return question.selection.measured->origin();
    case Source::model:
      break;
  }
  std::string text = "the model";
  if (!question.machine.profile.part(question.devices()).scales.empty())
    text += ", fitted to this machine";
  if (question.autotuned)
    text +=
        "; the first calls then try several candidates (CAPSTAN_AUTOTUNE=1) and take the fastest";
  return text;
}

perf::Table candidates_table() {
  return {{{"  candidate", "", 38},
           {"predicted", "", 11},
           {"= latency", "", 9, 1},
           {"+bandwidth", "", 10, 2},
           {"+reduction", "", 10, 3},
           {"+waiting", "", 9, 4},
           {"measured", "", 10}},
          perf::line_width()};
}

/// The verdict stands in the next line where the table fills the width.
std::string line_of(const perf::Table& table, const SurveyedWay& way) {
  const auto time = [](double nanoseconds) { return fmt::format("{:.2f}", nanoseconds / 1000); };
  const auto part = [&](double PredictedTime::* member) {
    return way.predicted ? time((*way.predicted).*member) : "-";
  };
  const std::string name =
      fmt::format("{} {}", way.chosen ? '*' : ' ', full_name(way.algorithm->name, way.protocol));
  const std::string line =
      table.line({fmt::format("{:<38}", name), way.predicted ? time(way.predicted->total()) : "-",
                  part(&PredictedTime::latency), part(&PredictedTime::bandwidth),
                  part(&PredictedTime::reduction), part(&PredictedTime::waiting),
                  way.measured ? time(*way.measured) : "-"});
  const bool fits = table.left_out().empty();
  return fits ? fmt::format("{}  {}\n", line.substr(0, line.size() - 1), way.verdict)
              : fmt::format("{}    {}\n", line, way.chosen ? "chosen" : way.verdict);
}

nlohmann::json to_json(const SurveyedWay& way) {
  nlohmann::json json{{"algorithm", way.algorithm->name},
                      {"protocol", word_for(way.protocol)},
                      {"chosen", way.chosen},
                      {"verdict", way.verdict},
                      {"predicted", nullptr},
                      {"measured", nullptr}};
  if (way.measured) json["measured"] = *way.measured / 1000;
  if (const auto& time = way.predicted)
    json["predicted"] = {{"total", time->total() / 1000},
                         {"latency", time->latency / 1000},
                         {"bandwidth", time->bandwidth / 1000},
                         {"reduction", time->reduction / 1000},
                         {"waiting", time->waiting / 1000}};
  return json;
}

/// The cost of reproducible sums, where they are asked for.
std::string bits_text(const Question& question, const Survey& survey) {
  if (question.selection.reproducible <= Reproducible::run || !rounds(question.call)) return "";
  Question other = question;
  other.selection.reproducible = Reproducible::run;
  const Choice any = other.answer().decision.choice;
  return fmt::format(
      "bits:     {}, as asked; expected to take {:.2f} times as long as {}, the "
      "choice without\n",
      name_of(question.selection.reproducible),
      survey.decision.choice.nanoseconds / any.nanoseconds, any.algorithm->name);
}

}  // namespace

std::string to_text(const Question& question, const Survey& survey) {
  const Choice& choice = survey.decision.choice;
  std::string text =
      fmt::format("{}, {} bytes, on {}\n", to_string(question.call),
                  question.call.extent(question.hosts().ranks()).value(), world_of(question));
  text += fmt::format("{:<9} {} ({}), {}\n",
                      survey.refusal.empty() ? "chosen:" : "REFUSED:", choice.algorithm->name,
                      choice.algorithm->summary, choice.manner());
  if (!survey.refusal.empty()) text += fmt::format("such calls fail: {}\n", survey.refusal);
  text +=
      fmt::format("because:  {}\ndecided by: {}\n", choice.reason, source_text(question, survey));
  if (rounds(question.call) && !choice.algorithm->guarantees.same_sums)
    text += "bits:     ranks add in different orders: refused unless CAPSTAN_REPRODUCIBLE=none\n";
  text += bits_text(question, survey);
  for (const std::string& rule : survey.rules_passed_over)
    text += fmt::format("a rule cannot be followed: {}\n", rule);
  const perf::Table table = candidates_table();
  text += "\nmicroseconds\n" + table.names(table.left_out().empty() ? "  verdict" : "");
  std::map<std::string, std::string> impossible;  // by the reason
  for (const SurveyedWay& way : survey.ways)
    if (way.predicted)
      text += line_of(table, way);
    else
      impossible[way.verdict] += " " + full_name(way.algorithm->name, way.protocol);
  for (const auto& [reason, names] : impossible)
    text += fmt::format("not possible: {}:{}\n", reason, names);
  return text;
}

nlohmann::json to_json(const Question& question, const Survey& survey) {
  const Choice& choice = survey.decision.choice;
  nlohmann::json candidates = nlohmann::json::array();
  for (const SurveyedWay& way : survey.ways) candidates.push_back(to_json(way));
  return {{"call", to_string(question.call)},
          {"bytes", question.call.extent(question.hosts().ranks()).value()},
          {"ranks", question.hosts().ranks()},
          {"hosts", question.hosts().count()},
          {"memory", name_of(question.call.memory)},
          {"device_link", question.devices() ? word_for(*question.devices()) : ""},
          {"algorithm", choice.algorithm->name},
          {"protocol", word_for(choice.protocol)},
          {"times_shorter_blocks", choice.times_shorter},
          {"same_sums", choice.algorithm->guarantees.same_sums},
          {"reproducible", name_of(question.selection.reproducible)},
          {"left_fold", choice.algorithm->guarantees.left_fold},
          {"rank_ordered_sum", choice.algorithm->guarantees.rank_ordered_sum},
          {"host_ordered_sum", choice.algorithm->guarantees.host_ordered_sum},
          {"reason", choice.reason},
          {"refusal", survey.refusal},
          {"decided_by", name_of(survey.decision.source)},
          {"source", source_text(question, survey)},
          {"autotuned", question.autotuned && survey.decision.source == Source::model},
          {"rules_passed_over", survey.rules_passed_over},
          {"candidates", std::move(candidates)}};
}

std::string schedule_text(const Question& question, const Choice& choice, Rank rank) {
  const Schedule schedule =
      choice.algorithm->schedule(Group::world(question.hosts(), rank), question.call.shape);
  std::string text = fmt::format("\nschedule of rank {}\n", rank.value());
  for (std::size_t i = 0; i < schedule.steps().size(); ++i)
    text += fmt::format("{:>5}  {}\n", i, to_string(schedule, schedule.steps()[i]));
  return text;
}

}  // namespace capstan::cli
