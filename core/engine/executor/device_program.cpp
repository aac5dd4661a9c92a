// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/device_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

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

/// Bytes that an operation reads or writes.
struct Access {
  BoundOperand where;
  std::uint64_t bytes = 0;
  bool writes = false;
};

/// Whether two accesses of one block may be to the same byte, one of them a write. Input and output
/// may be the same memory.
bool conflict(const Access& a, const Access& b) {
  if (!a.writes && !b.writes) return false;
  const auto is_users = [](const Access& access) {
    return access.where.place == Place::input || access.where.place == Place::output;
  };
  if (a.where.place != b.where.place) return is_users(a) && is_users(b);
  if (a.where.in_staging() && a.where.owner != b.where.owner) return false;
  return a.where.offset < b.where.offset + b.bytes && b.where.offset < a.where.offset + a.bytes;
}

/// Adds one program to a device's, and makes the block of it.
class BlockMaker {
 public:
  BlockMaker(DeviceProgram& to, const Plan& plan, const BoundProgram& program)
      : to_(to), plan_(plan), program_(program) {
    block_.first_op = static_cast<std::uint32_t>(to.ops.size());
    block_.first_operand = operand_count();
    for (const Rank reader : *program.readers) block_.readers |= bit_of(reader);
    for (const Rank writer : writers_to(program.source)) block_.writers |= bit_of(writer);
  }

  ProgramBlock make() {
    for (const BoundOp& op : program_.ops) {
      if (op.code == OpCode::notify) continue;  // nobody sleeps on a device
      const ProgramCode code = code_of(plan_, op);
      if (code == ProgramCode::gather)
        add_gather(op);
      else
        add_peer(code, op.peer);
    }
    block_.end_op = static_cast<std::uint32_t>(to_.ops.size());
    block_.end_operand = operand_count();
    to_.most_operands = std::max(to_.most_operands, block_.end_operand - block_.first_operand);
    return block_;
  }

 private:
  std::uint32_t operand_count() const { return static_cast<std::uint32_t>(to_.operands.size()); }
  std::span<const BoundOperand> destinations(const BoundOp& op) const {
    return std::span{program_.operands}.subspan(op.first_operand, op.destination_count);
  }
  std::span<const BoundOperand> sources(const BoundOp& op) const {
    return std::span{program_.operands}.subspan(op.first_operand + op.destination_count,
                                                op.source_count);
  }

  void add_gather(const BoundOp& op) {
    if (op.source_count > 64) refuse(plan_, "it reduces more than 64 sources at once");
    const bool meets = must_meet(op);
    if (!meets && is_same_copy(op)) return add_destinations(op);
    to_.ops.push_back({.code = ProgramCode::gather,
                       .meets = meets ? 1U : 0U,
                       .source_count = op.source_count,
                       .first_source = operand_count() - block_.first_operand,
                       .divisor = op.divisor,
                       .count = op.count});
    for (std::uint32_t i = 0; i < op.source_count; ++i) {
      const auto& added = to_.operands.emplace_back(operand_of(sources(op)[i], to_.packets));
      to_.ops.back().staged_sources |= std::uint64_t{added.staged} << i;
    }
    copied_ = op.source_count == 1 ? &op : nullptr;
    add_destinations(op);
  }
  void add_destinations(const BoundOp& op) {
    ProgramOp& gather = to_.ops.back();
    for (const BoundOperand& to : destinations(op)) {
      const auto& added = to_.operands.emplace_back(operand_of(to, to_.packets));
      gather.staged_destinations |= std::uint64_t{added.staged} << gather.destination_count++;
    }
  }
  /// Whether it copies the very bytes that the operation before copies.
  bool is_same_copy(const BoundOp& op) const {
    constexpr std::uint32_t most_destinations = 64;
    if (!copied_ || op.source_count != 1 || op.count != copied_->count ||
        op.divisor != copied_->divisor ||
        to_.ops.back().destination_count + op.destination_count > most_destinations)
      return false;
    const BoundOperand &own = sources(op)[0], &former = sources(*copied_)[0];
    return own.base == former.base && own.offset == former.offset;
  }
  /// Whether its threads have to wait for those of the operations since the block has met: each
  /// operation deals its elements to the threads in its own way.
  bool must_meet(const BoundOp& op) {
    std::vector<Access> own;
    const auto add = [&](std::span<const BoundOperand> operands, bool writes) {
      for (const BoundOperand& operand : operands)
        own.push_back({operand, op.count * plan_.element.value(), writes});
    };
    add(sources(op), false);
    add(destinations(op), true);
    const bool meets = std::ranges::any_of(own, [&](const Access& access) {
      return std::ranges::any_of(since_meeting_,
                                 [&](const Access& former) { return conflict(access, former); });
    });
    if (meets) since_meeting_.clear();
    since_meeting_.insert(since_meeting_.end(), own.begin(), own.end());
    return meets;
  }

  /// Signals that follow one another are one operation, and so are waits: threads share the peers.
  /// A signal tells of all that the block has done; after a wait it has met.
  void add_peer(ProgramCode code, Rank peer) {
    const bool goes_on = to_.ops.size() > block_.first_op && to_.ops.back().code == code &&
                         (to_.ops.back().peers & bit_of(peer)) == 0;
    if (!goes_on) to_.ops.push_back({.code = code, .meets = since_meeting_.empty() ? 0U : 1U});
    to_.ops.back().peers |= bit_of(peer);
    since_meeting_.clear();
    copied_ = nullptr;
  }

  DeviceProgram& to_;
  const Plan& plan_;
  const BoundProgram& program_;
  ProgramBlock block_{};
  std::vector<Access> since_meeting_;
  const BoundOp* copied_ = nullptr;  ///< the last operation, if it is a copy
};

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
  if (packets && plan.slots != SlotKind::packets)
    refuse(plan, "its packets are not in slots of packets: plan it with the slots of devices");
  if (plan.call.user) refuse(plan, "its operation is a function of the host");
  if (ranks > static_cast<int>(LaneState::most_ranks)) refuse(plan, "there are too many ranks");
  if (plan.programs.size() > 2) refuse(plan, "its blocks are of more than two lengths");
  block_count = plan.blocks;
  block_distance = bytes_of(plan.block_count, plan.element).value();
  for (const BoundProgram& program : plan.programs)
    blocks.push_back(BlockMaker{*this, plan, program}.make());
}

void DeviceProgram::put_into(kernels::device::ProgramArguments& arguments) const {
  arguments.packets = packets ? 1 : 0;
  arguments.block_count = block_count;
  arguments.block_distance = block_distance;
  arguments.last_block = static_cast<std::uint32_t>(blocks.size() - 1);
  arguments.most_operands = most_operands;
  arguments.scratch_bytes = scratch.value();
}

}  // namespace capstan
