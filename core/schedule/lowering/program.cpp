// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/program.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace capstan {
namespace {

void note(std::vector<Rank>& ranks, Rank rank) {
  if (std::ranges::find(ranks, rank) == ranks.end()) ranks.push_back(rank);
}

std::string to_string(const Operand& operand, Elements length) {
  constexpr std::string_view names[] = {"input", "output", "scratch", "staging", "input", "output"};
  const std::string owner =
      operand.place >= Place::staging ? fmt::format("rank {} ", operand.owner.value()) : "";
  return fmt::format("{}{}[{},{})", owner, names[static_cast<int>(operand.place)],
                     operand.offset.value(), (operand.offset + length).value());
}

}  // namespace

std::vector<Rank> readers_of(const Program& program) {
  std::vector<Rank> readers;
  bool writes = false;
  for (const Op& op : program.ops) {
    writes = writes ||
             (has_operands(op.code) && program.destinations(op).back().place == Place::staging);
    if (op.code == OpCode::signal || op.code == OpCode::notify) note(readers, op.peer);
  }
  return writes ? readers : std::vector<Rank>{};
}

std::vector<Rank> writers_to(const Program& program) {
  std::vector<Rank> writers;
  for (const Op& op : program.ops) {
    if (op.code == OpCode::wait) note(writers, op.peer);
    if (!has_operands(op.code)) continue;
    for (const Operand& source : program.sources(op))
      if (source.place == Place::staging && source.owner != program.self)
        note(writers, source.owner);
  }
  return writers;
}

int last_reading_phase(const Program& program) {
  const auto in_staging = [&](const Operand& o) {
    return o.place == Place::staging && o.owner != program.self;
  };
  int phase = 0;
  for (const Op& op : program.ops)
    if (has_operands(op.code) && std::ranges::any_of(program.sources(op), in_staging))
      phase = std::max<int>(phase, op.phase);
  return phase;
}

bool writes_peers_too(const Program& program, const Op& op) {
  return op.code == OpCode::gather && op.destination_count > 1 &&
         program.destinations(op).back().place == Place::peer_output;
}

std::string to_string(const Program& program, const Op& op) {
  constexpr std::string_view names[] = {"gather", "push", "flush", "signal", "wait", "notify"};
  if (!has_operands(op.code))
    return fmt::format("{} rank {}", names[static_cast<int>(op.code)], op.peer.value());
  std::string text = op.code == OpCode::push ? fmt::format("push to rank {}", op.peer.value())
                     : op.source_count == 1  ? "copy"
                                             : "reduce";
  const char* separator = " ";
  for (const Operand& source : program.sources(op))
    text += separator + to_string(source, op.length), separator = ", ";
  separator = " -> ";
  for (const Operand& destination : program.destinations(op))
    text += separator + to_string(destination, op.length), separator = " and ";
  return text;
}

}  // namespace capstan
