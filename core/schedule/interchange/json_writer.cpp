// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "core/schedule/interchange/formats.hpp"
#include "core/schedule/interchange/names.hpp"

namespace capstan {
namespace {

std::string literal(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_of(const Span& span) {
  return fmt::format("[\"{}\", {}, {}]", name_of(span.buffer), span.offset.value(),
                     span.length.value());
}

std::string json_of(const Schedule& schedule, const Step& step) {
  std::string text = fmt::format("{{\"verb\": \"{}\"", name_of(step.verb));
  const bool local = step.verb == Verb::copy || step.verb == Verb::reduce;
  if (!local) text += fmt::format(", \"peer\": {}", step.peer.value());
  if (local || step.verb == Verb::put) {
    std::vector<std::string> sources;
    for (const Span& source : schedule.sources(step)) sources.push_back(json_of(source));
    text += fmt::format(", \"destination\": {}, \"sources\": [{}]", json_of(step.destination),
                        fmt::join(sources, ", "));
  }
  if (step.completes) text += ", \"completes\": true";
  if (step.phase > 0) text += fmt::format(", \"phase\": {}", step.phase);
  return text + "}";
}

/// The lengths of the buffers, where they differ from those that the collective has.
std::string lengths_of(const Schedule& schedule, const Contract& contract) {
  const auto [input, output] = contract.lengths(schedule.self().value());
  const Extents& extents = schedule.extents();
  std::string text;
  if (extents.input != input) text += fmt::format("\"input\": {}, ", extents.input.value());
  if (extents.output != output) text += fmt::format("\"output\": {}, ", extents.output.value());
  return text;
}

std::string json_of(const Schedule& schedule, const Contract& contract) {
  std::vector<std::string> steps;
  for (const Step& step : schedule.steps()) steps.push_back(json_of(schedule, step));
  return fmt::format("    {{\"rank\": {}, {}\"steps\": [{}{}{}]}}", schedule.self().value(),
                     lengths_of(schedule, contract), steps.empty() ? "" : "\n      ",
                     fmt::join(steps, ",\n      "), steps.empty() ? "" : "\n    ");
}

std::string json_of(const std::vector<Elements>& counts) {
  std::vector<std::uint64_t> numbers;
  for (const Elements count : counts) numbers.push_back(count.value());
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

std::string sizes_of(const ScheduleSet& set) {
  std::string text = fmt::format("  \"ranks\": {},\n", set.schedules.size());
  if (!set.hosts.single()) {
    std::vector<int> host_of;
    for (const Rank rank : all_ranks(set.hosts.ranks())) host_of.push_back(set.hosts.host_of(rank));
    text += fmt::format("  \"hosts\": [{}],\n", fmt::join(host_of, ", "));
  }
  if (has_root(set.collective)) text += fmt::format("  \"root\": {},\n", set.shape.root);
  text += has_counts(set.collective) ? fmt::format("  \"counts\": {},\n", json_of(set.shape.counts))
                                     : fmt::format("  \"count\": {},\n", set.shape.count.value());
  const Schedule& first = set.schedules[Rank{0}];
  return text + fmt::format("  \"scratch\": {},\n  \"phases\": {},\n",
                            first.extents().scratch.value(), first.phases());
}

}  // namespace

std::string to_json(const ScheduleSet& set) {
  std::vector<std::string> guarantees, schedules;
  for (const auto& [name, member] : guarantee_names)
    if (set.guarantees.*member) guarantees.push_back(literal(name));
  for (const Schedule& schedule : set.schedules)
    schedules.push_back(json_of(schedule, set.contract()));
  return fmt::format(
      "{{\n  \"format\": \"{}\",\n  \"version\": {},\n  \"collective\": \"{}\",\n"
      "  \"algorithm\": {},\n  \"summary\": {},\n{}  \"guarantees\": [{}],\n  \"traffic\": "
      "\"{}\",\n"
      "  \"schedules\": [\n{}\n  ]\n}}\n",
      schedule_file_format, schedule_file_version, name_of(set.collective), literal(set.algorithm),
      literal(set.summary), sizes_of(set), fmt::join(guarantees, ", "),
      traffic_names[static_cast<std::size_t>(set.traffic)], fmt::join(schedules, ",\n"));
}

}  // namespace capstan
