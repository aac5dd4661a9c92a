#include "core/engine/executor/device_program.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"

namespace capstan {

using kernels::device::LaneState;
using kernels::device::ProgramBlock;
using kernels::device::ProgramCode;
using kernels::device::ProgramOp;
using kernels::device::ProgramOperand;
using kernels::device::SegmentShape;

namespace {

constexpr std::uint64_t packet_growth = kernels::device::packet_stride / packet_bytes;
static_assert(kernels::device::packet_payload == packet_payload_bytes);
static_assert(device_slots.count.packets <= static_cast<int>(LaneState::most_slots));

constexpr std::uint32_t segment_base(Rank rank) {
  return 3 + static_cast<std::uint32_t>(rank.value());
}

std::uint64_t bit_of(Rank rank) {
  return std::uint64_t{1} << rank.value();
}

ProgramOperand operand_of(const BoundOperand& operand, bool packets) {
  if (!operand.in_staging()) return {operand.base, 0, operand.offset};
  return {segment_base(operand.owner), 1, operand.offset * (packets ? packet_growth : 1)};
}

[[noreturn]] void refuse(const Plan& plan, const char* what) {
  throw InvalidArgument(fmt::format("{} cannot run on a device: {}", to_string(plan.call), what));
}

ProgramCode code_of(const Plan& plan, const BoundOp& op) {
  if (op.reaches_peers) refuse(plan, "it reads buffers of peers: take the protocol staged");
  switch (op.code) {
    case OpCode::gather:
      return ProgramCode::gather;
    case OpCode::signal:
      return ProgramCode::signal;
    case OpCode::wait:
      return ProgramCode::wait;
    default:
      refuse(plan, "it sends over a network");
  }
}

/// Adds one program, and what a block of it is: all but where its buffers lie.
ProgramBlock add(DeviceProgram& to, const Plan& plan, const BoundProgram& program) {
  ProgramBlock block{};
  block.first_op = static_cast<std::uint32_t>(to.ops.size());
  for (const Rank reader : *program.readers) block.readers |= bit_of(reader);
  for (const Rank writer : writers_to(program.source)) block.writers |= bit_of(writer);
  for (const BoundOp& op : program.ops) {
    if (op.code == OpCode::notify) continue;  // nobody sleeps on a device
    const std::uint32_t operands =
        has_operands(op.code) ? op.destination_count + op.source_count : 0;
    to.ops.push_back({.code = code_of(plan, op),
                      .destination_count = op.destination_count,
                      .source_count = op.source_count,
                      .first_operand = static_cast<std::uint32_t>(to.operands.size()),
                      .divisor = op.divisor,
                      .peer = static_cast<std::uint32_t>(op.peer.value()),
                      .count = op.count});
    for (std::uint32_t i = 0; i < operands; ++i) {
      to.operands.push_back(operand_of(program.operands[op.first_operand + i], to.packets));
    }
    to.most_operands = std::max(to.most_operands, operands);
  }
  block.end_op = static_cast<std::uint32_t>(to.ops.size());
  return block;
}

}  // namespace

DeviceSegments::DeviceSegments(int ranks, int lanes, Bytes staging_region)
    : lanes_(lanes), slots_(ranks, staging_region, device_slots), shape_{} {
  if (ranks > static_cast<int>(LaneState::most_ranks))
    throw InvalidArgument(fmt::format("{} ranks cannot meet on a device: at most {} can", ranks,
                                      LaneState::most_ranks));
  constexpr std::uint64_t line = 128;
  const auto count = static_cast<std::uint64_t>(ranks);
  const std::uint64_t control = (2 * count * sizeof(std::uint64_t) + line - 1) / line * line;
  const auto offset = [&](SlotKind kind) { return slots_.offset(kind, 0).value(); };
  const std::uint64_t packets = offset(SlotKind::packets), behind = offset(SlotKind::tiny_staging);
  const std::uint64_t packets_size = (behind - packets) * packet_growth;
  shape_ = {.lane_bytes = control + packets_size + (slots_.total().value() - behind),
            .slots_begin = {control + packets_size + offset(SlotKind::staging) - behind, control},
            .slot_distance = {slots_.region(SlotKind::staging).value(),
                              slots_.region(SlotKind::packets).value() * packet_growth},
            .slot_count = {static_cast<std::uint32_t>(device_slots.count.staging),
                           static_cast<std::uint32_t>(device_slots.count.packets)},
            .ranks = static_cast<std::uint32_t>(ranks)};
}

DeviceProgram::DeviceProgram(const Plan& plan, int ranks)
    : packets(in_packets(plan.protocol)), scratch(plan.scratch) {
  if (packets && plan.slots == SlotKind::staging)
    refuse(plan, "its packets are cut into blocks: plan it in one");
  if (plan.call.user) refuse(plan, "its operation is a function of the host");
  if (ranks > static_cast<int>(LaneState::most_ranks)) refuse(plan, "there are too many ranks");
  std::vector<ProgramBlock> of_program;
  for (const BoundProgram& program : plan.programs) of_program.push_back(add(*this, plan, program));
  const std::uint64_t distance = bytes_of(plan.block_count, plan.element).value();
  for (std::uint64_t b = 0; b < plan.blocks; ++b) {
    ProgramBlock block = of_program[plan.program_of.empty() ? 0 : plan.program_of[b]];
    block.buffer_offset = b * distance;
    blocks.push_back(block);
  }
}

}  // namespace capstan
