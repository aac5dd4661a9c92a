// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/bind.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

namespace capstan {
namespace {

/// Maps elements of a block's buffer to the call's buffer: part i of the block is a piece of part i
/// of the call. The default maps each element to the same offset.
class PartMap {
 public:
  PartMap() = default;
  PartMap(Blocks block, Blocks call) : block_(std::move(block)), call_(std::move(call)) {}

  /// The offset in the call's buffer of the element at `offset`. Cuts `length` to the elements that
  /// follow it there.
  Elements find(Elements offset, Elements& length) const {
    if (!block_) return offset;
    int part = 0;
    while ((*block_)[part].end() <= offset && part + 1 < block_->size()) ++part;
    length = std::min(length, (*block_)[part].end() - offset);
    return (*call_)[part].offset + offset - (*block_)[part].offset;
  }

 private:
  std::optional<Blocks> block_, call_;
};

class Binder {
 public:
  explicit Binder(const Binding& to) : to_(to), ranks_(to.hosts.ranks()), self_(to.self) {}

  BoundProgram bind(Program program, const Shape& block) const {
    ByRank<PartMap> inputs, outputs;
    for (const Rank rank : all_ranks(ranks_)) {
      const bool wanted = rank == self_ || reads_buffers(to_.protocol);
      inputs.push_back(wanted ? map_of(block, &Contract::input_blocks, rank) : PartMap{});
      outputs.push_back(wanted ? map_of(block, &Contract::output_blocks, rank) : PartMap{});
    }
    BoundProgram bound;
    bound.readers = std::make_shared<const std::vector<Rank>>(readers_of(program));
    bound.phase_end.assign(static_cast<std::size_t>(program.phases), 0);
    for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
      bind(program, i, inputs, outputs, bound);
      bound.phase_end[program.ops[i].phase] = static_cast<std::uint32_t>(bound.ops.size());
    }
    for (std::size_t k = 1; k < bound.phase_end.size(); ++k)
      bound.phase_end[k] = std::max(bound.phase_end[k], bound.phase_end[k - 1]);
    if (in_packets(to_.protocol) && to_.hosts.single()) drop_last_notices(bound);
    bound.source = std::move(program);
    return bound;
  }

 private:
  using BlocksOf = std::optional<Blocks> (Contract::*)(int) const;

  PartMap map_of(const Shape& block, BlocksOf blocks_of, Rank rank) const {
    const auto parts = (to_.call.contract(ranks_).*blocks_of)(rank.value());
    if (!parts || block == to_.call.shape) return {};
    return {*(Contract{to_.call.collective, block, ranks_}.*blocks_of)(rank.value()), *parts};
  }

  /// One operation becomes several where its operands reach over the ends of parts.
  void bind(const Program& program, std::uint32_t index, const ByRank<PartMap>& inputs,
            const ByRank<PartMap>& outputs, BoundProgram& bound) const {
    const Op& op = program.ops[index];
    const auto operands = std::span{program.operands}.subspan(
        op.first_operand, has_operands(op.code) ? op.destination_count + op.source_count : 0);
    Elements done;
    do {
      Elements piece = op.length - done;
      const auto first = static_cast<std::uint32_t>(bound.operands.size());
      for (Operand operand : operands) {
        operand.offset += done;
        const Rank owner = owner_of(operand);
        if (operand.place == Place::input || operand.place == Place::peer_input)
          operand.offset = inputs[owner].find(operand.offset, piece);
        if (operand.place == Place::output || operand.place == Place::peer_output)
          operand.offset = outputs[owner].find(operand.offset, piece);
        bound.operands.push_back(bind(operand));
      }
      bound.ops.push_back(bind(op, index, first, piece));
      bound.ops.back().reaches_peers = std::ranges::any_of(
          operands, [](const Operand& o) { return is_buffer_of_peer(o.place); });
      bound.ops.back().is_for_peers =
          !operands.empty() && (operands.front().place == Place::staging ||
                                operands.front().place == Place::peer_output);
      bound.ops.back().writes_peers_too = writes_peers_too(program, op);
      use_writable_aliases(bound, bound.ops.back());
      done += piece;
    } while (done < op.length);
  }

  /// Long reads of peers' staging buffers go through the writable alias of their segments. An
  /// exception is a rank that reduces staging buffers of several peers and stages nothing itself:
  /// plain loads through the alias are slower, and all ranks wait for that rank.
  void use_writable_aliases(BoundProgram& bound, const BoundOp& op) const {
    if (op.code != OpCode::gather || in_packets(to_.protocol)) return;
    if (bytes_of(Elements{op.count}, to_.call.element()) < to_.long_read) return;
    const auto sources =
        std::span{bound.operands}.subspan(op.first_operand + op.destination_count, op.source_count);
    const auto of_peer = [&](const BoundOperand& source) {
      return source.in_staging() && source.owner != self_;
    };
    if (bound.readers->empty() && std::ranges::count_if(sources, of_peer) > 1) return;
    for (BoundOperand& source : sources)
      if (of_peer(source)) source.base = BoundOperand::writable_alias(source.owner, ranks_);
  }

  /// Drops notices after which the program awaits nothing: the end of a call wakes all peers that
  /// share memory anyway. (Over hosts the end of a call waits until all data have been sent.)
  // measured: docs/lab-notebook.md#drop-last-notices
  static void drop_last_notices(BoundProgram& bound) {
    for (std::size_t i = bound.ops.size(); i-- > 0 && !awaits(bound, bound.ops[i]);) {
      const BoundOp& op = bound.ops[i];
      if (op.code != OpCode::notify) continue;
      erase_op(bound, i);
    }
  }

  /// Whether an operation of a packet program waits for a peer.
  static bool awaits(const BoundProgram& bound, const BoundOp& op) {
    if (op.code != OpCode::gather) return op.code != OpCode::notify;
    const auto sources =
        std::span{bound.operands}.subspan(op.first_operand + op.destination_count, op.source_count);
    return std::ranges::any_of(sources, &BoundOperand::in_staging);
  }

  Rank owner_of(const Operand& operand) const {
    return is_buffer_of_peer(operand.place) ? operand.owner : self_;
  }

  BoundOp bind(const Op& op, std::uint32_t index, std::uint32_t first_operand,
               Elements length) const {
    const bool divide = op.completes && to_.call.op == ReduceOp::average;
    return {.code = op.code,
            .destination_count = op.destination_count,
            .reaches_peers = false,
            .is_for_peers = false,
            .writes_peers_too = false,
            .source_count = op.source_count,
            .first_operand = first_operand,
            .divisor = divide ? static_cast<std::uint32_t>(ranks_) : 1,
            .peer = op.peer,
            .source_op = index,
            .count = length.value()};
  }

  BoundOperand bind(const Operand& operand) const {
    const Bytes element = to_.call.element();
    const bool in_staging = operand.place == Place::staging,
               at_peer = is_buffer_of_peer(operand.place);
    const Rank owner = in_staging || at_peer ? operand.owner : self_;
    const Bytes in_its_staging = to_.layout.between_regions(to_.slots) * operand.region +
                                 staging_bytes(operand.offset, to_.protocol, element);
    const Bytes offset = in_staging ? in_its_staging : bytes_of(operand.offset, element);
    return {.place = operand.place,
            .base = in_staging ? BoundOperand::segment_of(owner)
                    : at_peer  ? 0
                               : static_cast<std::uint32_t>(operand.place),
            .owner = owner,
            .offset = offset.value()};
  }

  const Binding& to_;
  const int ranks_;
  const Rank self_;
};

}  // namespace

void erase_op(BoundProgram& program, std::size_t index) {
  program.ops.erase(program.ops.begin() + static_cast<std::ptrdiff_t>(index));
  for (std::uint32_t& end : program.phase_end)
    if (end > index) --end;
}

BoundProgram bind(Program program, const Shape& block, const Binding& to) {
  return Binder{to}.bind(std::move(program), block);
}

}  // namespace capstan
