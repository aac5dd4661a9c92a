// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/state_report.hpp"

#include <fmt/format.h>

#include "core/engine/control/rank_names.hpp"

namespace capstan {
namespace {

std::string line_of(const StateReport::Member& member, bool is_self) {
  const std::string state =
      member.departed  ? fmt::format("gone ({})", *member.departed)
      : member.stopped ? "stopped"
      : member.wait.kind != Wait::Kind::none
          ? fmt::format("waits for {} (of the world) in {} for {}", list_of(member.wait.peers),
                        to_string(member.wait), seconds(member.wait.waited))
          : "tells of no wait";
  return fmt::format("  {}{}: {}; {} calls begun, {} finished\n", member.name,
                     is_self ? ", which reports" : "", state, member.begun, member.finished);
}

std::string line_of(const StateReport::Pending& pending) {
  if (!pending.begun) return fmt::format("  queued: {}\n", pending.text);
  return fmt::format("  {} for {}, for {}\n",
                     pending.position.empty() ? pending.text : pending.position,
                     list_of(pending.peers), seconds(pending.waited));
}

}  // namespace

std::string to_text(const StateReport& report) {
  std::string text = fmt::format("Capstan report of rank {} of {}{}\n", report.self.value(),
                                 report.members.size(), report.group);
  if (report.failure) text += fmt::format("Failed: {}\n", *report.failure);
  if (!report.verdict.empty()) text += fmt::format("Verdict: {}\n", report.verdict);
  text += report.pending.empty() ? "No operation is pending.\n" : "Pending operations:\n";
  for (const auto& pending : report.pending) text += line_of(pending);
  text += "Ranks, as far as this one knows:\n";
  for (const auto& member : report.members) text += line_of(member, member.rank == report.self);
  return text;
}

}  // namespace capstan
