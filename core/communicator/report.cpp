// SPDX-License-Identifier: Apache-2.0

// Reports on demand, as text and as JSON.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/communicator/communicator_prepared.hpp"
#include "core/engine/run/engine.hpp"

namespace capstan {
namespace {

using Json = nlohmann::json;

std::vector<int> numbers_of(const std::vector<Rank>& ranks) {
  std::vector<int> numbers;
  for (const Rank rank : ranks) numbers.push_back(rank.value());
  return numbers;
}

std::string_view name_of_state(Culprit::State state) {
  constexpr std::string_view names[] = {"absent", "stopped", "silent", "waiting", "left", "dead"};
  return names[static_cast<std::size_t>(state)];
}

/// An entry as PyTorch's flight recorder has them, with the step, the peers and the time waited.
Json entry_of(const StateReport::Pending& pending) {
  const bool is_p2p = pending.collective == "send" || pending.collective == "recv";
  Json entry{{"profiling_name", "capstan:" + pending.collective},
             {"state", pending.begun ? "started" : "scheduled"},
             {"is_p2p", is_p2p},
             {"input_bytes", pending.input_bytes},
             {"output_bytes", pending.output_bytes},
             {"peers", numbers_of(pending.peers)},
             {"waited_ms", pending.waited.count()},
             {"text", pending.position.empty() ? pending.text : pending.position}};
  if (is_p2p) return entry;
  entry["input_dtypes"] = Json::array({pending.type});
  if (pending.begun) entry["collective_seq_id"] = pending.number;
  if (pending.steps > 0) entry["step"] = pending.step, entry["steps"] = pending.steps;
  return entry;
}

Json member_of(const StateReport::Member& member) {
  Json json{{"rank", member.rank.value()},
            {"world_rank", member.world_rank.value()},
            {"host", member.process.host},
            {"process_id", member.process.id},
            {"last_started_collective", member.begun},
            {"last_completed_collective", member.finished},
            {"stopped", member.stopped}};
  if (member.departed) json["departed"] = *member.departed;
  if (member.wait.kind != Wait::Kind::none)
    json["waits"] = {{"for_world_ranks", numbers_of(member.wait.peers)},
                     {"in", to_string(member.wait)},
                     {"waited_ms", member.wait.waited.count()}};
  return json;
}

Json culprit_of(const Culprit& culprit) {
  return {{"world_rank", culprit.world_rank.value()},
          {"rank", culprit.rank ? Json(culprit.rank->value()) : Json(nullptr)},
          {"state", name_of_state(culprit.state)},
          {"host", culprit.host},
          {"process_id", culprit.process_id}};
}

}  // namespace

std::string Communicator::report() const {
  return to_text(Impl::of(*this).engine.state_report());
}

std::string Communicator::report_json() const {
  const StateReport report = Impl::of(*this).engine.state_report();
  Json json{{"version", 1}, {"rank", report.self.value()}, {"verdict", report.verdict}};
  json["entries"] = json["ranks"] = json["culprits"] = Json::array();
  for (const auto& pending : report.pending) json["entries"].push_back(entry_of(pending));
  for (const auto& member : report.members) json["ranks"].push_back(member_of(member));
  for (const auto& culprit : report.culprits) json["culprits"].push_back(culprit_of(culprit));
  if (report.failure) json["failure"] = *report.failure;
  // Texts of an operation's name or of a host may hold any bytes.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace capstan
