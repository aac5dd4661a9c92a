// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "core/schedule/interchange/formats.hpp"

namespace capstan {
namespace {

/// For a string of DOT.
std::string dot_string(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

}  // namespace

std::string title_of(const ScheduleSet& set) {
  std::string size = fmt::format("{} elements", set.shape.count.value());
  if (has_counts(set.collective)) {
    size = "counts";
    for (const Elements count : set.shape.counts) size += fmt::format(" {}", count.value());
  }
  return fmt::format("{} by {} on {} ranks{}, {}{}", name_of(set.collective), set.algorithm,
                     set.hosts.ranks(),
                     set.hosts.single() ? "" : fmt::format(" of {} hosts", set.hosts.count()), size,
                     has_root(set.collective) ? fmt::format(", root {}", set.shape.root) : "");
}

std::string to_text(const ScheduleSet& set) {
  std::string text = fmt::format("# {}\n", title_of(set));
  for (const Schedule& schedule : set.schedules) {
    text += fmt::format("rank {}\n", schedule.self().value());
    for (std::size_t i = 0; i < schedule.steps().size(); ++i)
      text += fmt::format("{:>5}  {}\n", i, to_string(schedule, schedule.steps()[i]));
  }
  return text;
}

std::string to_dot(const ScheduleSet& set) {
  std::string text = fmt::format(
      "// {0}\ndigraph \"{1}\" {{\n  rankdir=TB;\n  node [shape=box, fontname=\"monospace\"];\n",
      title_of(set), dot_string(set.algorithm));
  for (const Schedule& schedule : set.schedules) {
    const int rank = schedule.self().value();
    text += fmt::format("  subgraph cluster_{0} {{\n    label=\"rank {0}\";\n", rank);
    for (std::size_t i = 0; i < schedule.steps().size(); ++i) {
      text += fmt::format("    r{}_s{} [label=\"{}: {}\"];\n", rank, i, i,
                          to_string(schedule, schedule.steps()[i]));
      if (i > 0) text += fmt::format("    r{0}_s{1} -> r{0}_s{2};\n", rank, i - 1, i);
    }
    text += "  }\n";
  }
  for (const MatchedMessage& message : matched_messages(set.schedules))
    text += fmt::format("  r{}_s{} -> r{}_s{} [style=dashed, constraint=false, label=\"{}\"];\n",
                        message.from.value(), message.signal, message.to.value(), message.wait,
                        message.length.value());
  return text + "}\n";
}

}  // namespace capstan
