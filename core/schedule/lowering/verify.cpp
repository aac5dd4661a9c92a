// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/verify.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "core/schedule/lowering/slots.hpp"

namespace capstan {
namespace {

using proof::Effect;
using proof::Memory;
using proof::Piece;

/// A proof for elements of one type holds for all types: offsets are multiples of the element's
/// size. Only few elements of this type fit a packet.
constexpr DataType element_type = DataType::f64;
constexpr Bytes element{8};

/// Some reads of the proven calls go through the writable alias, others do not.
constexpr Bytes long_read = element * 4;

/// More than any proof stages in one block.
constexpr Bytes staging_region{std::uint64_t{1} << 40};

/// Plans for an average, so that the marks of complete sums show in the divisors of operations.
ByRank<Plan> plans_of(const LoweredCall& lowered, const Hosts& hosts, const SlotLayout& layout) {
  const Call call{.collective = lowered.algorithm->collective,
                  .type = element_type,
                  .op = ReduceOp::average,
                  .shape = lowered.shape};
  const Choice choice{.algorithm = lowered.algorithm, .protocol = lowered.protocol};
  const Elements whole = call.contract(hosts.ranks()).extent();
  return make_plans(call, choice, hosts, lowered.block > Elements{0} ? lowered.block : whole,
                    layout, long_read);
}

/// Turns plans into the effects of all that the executor does with them, one list for each rank.
class Scripts : public proof::BlockLayout {
 public:
  Scripts(const PlannedCalls& calls, const Hosts& hosts, const SlotLayout& layout,
          const LoweredProofOptions& options)
      : BlockLayout(options.in_place),
        options_(options),
        hosts_(hosts),
        layout_(layout),
        element_((*calls.front())[Rank{0}].element),
        ranks_(hosts.ranks(),
               RankState{SlotRotation{layout_}, FinishNotices{hosts.ranks(), layout.pool()}}) {
    std::map<const ByRank<Plan>*, int> first_form;
    int forms = 0;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const auto [form, is_new] = first_form.try_emplace(calls[i], forms);
      if (is_new) forms += static_cast<int>((*calls[i])[Rank{0}].programs.size());
      add(static_cast<int>(i), *calls[i], form->second);
    }
  }

  ByRank<std::vector<Effect>> take() {
    ByRank<std::vector<Effect>> scripts;
    for (RankState& rank : ranks_) scripts.push_back(std::move(rank.script));
    return scripts;
  }

 private:
  struct RankState {
    SlotRotation slots;
    FinishNotices notices;
    std::uint64_t finished = 0;  // blocks that the rank has published as finished
    std::vector<Effect> script{};
  };
  /// A call of one rank.
  struct Running {
    const Plan& plan;
    Rank self;
    int number;
    int first_form;  // of the blocks of its programs
    RankState& rank;

    int form_of(std::uint64_t block) const {
      return first_form + static_cast<int>(plan.program_of.empty() ? 0 : plan.program_of[block]);
    }
  };
  /// A block of a call.
  struct Place {
    std::uint64_t block;        // of the call
    std::uint64_t slot_offset;  // of the slot that the block uses
  };

  bool shares_memory(Rank a, Rank b) const override { return hosts_.together(a, b); }

  Elements extent_of_other(const Memory& memory) const override {
    if (memory.kind == Memory::Kind::scratch) return scratch_;
    const Bytes region = layout_.region(kind_at(static_cast<std::uint64_t>(memory.instance)));
    return memory.kind == Memory::Kind::packets ? payload_before(region) : elements_in(region);
  }

  SlotKind kind_at(std::uint64_t slot_offset) const {
    SlotKind kind = SlotKind::tiny_packets;
    for (const SlotKind other : all_slot_kinds)
      if (layout_.offset(other, 0).value() <= slot_offset && layout_.region(other) > Bytes{0})
        kind = other;
    return kind;
  }

  void add(int number, const ByRank<Plan>& plans, int first_form) {
    const Plan& first = plans[Rank{0}];
    BlockLayout::add({first.call.collective, first.call.shape, hosts_.ranks(),
                      claims_of(first.guarantees, &hosts_)});
    for (const Rank self : all_ranks(plans.size())) {
      if (options_.change_rotation) options_.change_rotation(self, number, ranks_[self].slots);
      scratch_ = std::max(scratch_, elements_in(plans[self].scratch));
      add_call({plans[self], self, number, first_form, ranks_[self]});
    }
  }

  void add_call(const Running& call) {
    const Plan& plan = call.plan;
    emit(call, {.kind = Effect::Kind::enter, .block = call.number});
    if (plan.blocks > 1) tell_writers(call);
    proof::for_each_phase(
        static_cast<int>(plan.blocks), static_cast<int>(plan.phases), [&](int block, int phase) {
          add_phase(call, static_cast<std::uint64_t>(block), static_cast<std::uint64_t>(phase));
        });
    for (const Rank peer : plan.pushed_to) emit(call, {.kind = Effect::Kind::flush, .peer = peer});
    end_call(call);
    emit(call, {.kind = Effect::Kind::leave, .synchronizes = plan.guarantees.synchronizes});
  }

  void add_phase(const Running& call, std::uint64_t block, std::uint64_t phase) {
    const Plan& plan = call.plan;
    const BoundProgram& program = plan.program(block);
    SlotRotation::Slot& slot = call.rank.slots.slot(plan.slots, block);
    if (phase == 0) acquire(call, slot, program.readers, block);
    for (std::size_t i = phase == 0 ? 0 : program.phase_end[phase - 1];
         i < program.phase_end[phase]; ++i)
      add_op(call, program, program.ops[i], {block, slot.offset});
    if (!plan.publishes(block, phase)) return;
    finish(call, call.rank.slots.first_block() + block + 1);
    tell_writers(call);
  }

  void acquire(const Running& call, SlotRotation::Slot& slot, const SlotReaders& readers,
               std::uint64_t block) {
    if (readers->empty()) return;
    if (!call.rank.slots.is_free(slot, call.plan.guarantees.bounded_skew))
      emit(call, {.kind = Effect::Kind::acquire,
                  .block = static_cast<int>(slot.must_finish) - 1,
                  .peers = *slot.readers});
    call.rank.slots.write(slot, block, readers);
  }

  void finish(const Running& call, std::uint64_t blocks) {
    call.rank.finished = blocks;
    call.rank.notices.note_read(call.plan.remote_writers, blocks);
    emit(call, {.kind = Effect::Kind::finish, .block = static_cast<int>(blocks) - 1});
  }

  void tell_writers(const Running& call) {
    for (const Rank peer : all_ranks(hosts_.ranks()))
      if (!hosts_.together(call.self, peer) && call.rank.notices.is_due(peer, call.rank.finished))
        emit(call, {.kind = Effect::Kind::tell, .peer = peer});
  }

  void end_call(const Running& call) {
    const Plan& plan = call.plan;
    const bool synchronizes = plan.guarantees.synchronizes;
    call.rank.slots.end_call(plan.slots, plan.blocks, synchronizes);
    finish(call, call.rank.slots.first_block());
    if (call.rank.notices.tells_after(plan.slots, plan.blocks, synchronizes)) tell_writers(call);
  }

  void add_op(const Running& call, const BoundProgram& program, const BoundOp& op,
              const Place& place) {
    Effect effect{.kind = kind_of(op, call.plan.protocol),
                  .completes = op.divisor > 1,
                  .block = static_cast<int>(call.rank.slots.first_block() + place.block),
                  .step = static_cast<int>(program.source.ops[op.source_op].step),
                  .peer = op.peer};
    effect.text = text_of(program.source, op.source_op);
    if (has_operands(op.code)) {
      effect.length = Elements{op.count};
      const auto operands = std::span{program.operands}.subspan(op.first_operand);
      for (const BoundOperand& operand : operands.first(op.destination_count)) {
        effect.destinations.push_back(piece_of(call, operand, place));
        if (op.code == OpCode::push) effect.destinations.back().memory.viewer = op.peer;
      }
      for (const BoundOperand& operand : operands.subspan(op.destination_count, op.source_count))
        effect.sources.push_back(piece_of(call, operand, place));
    }
    // Packets are waited for and sent one after the other, in pieces as small as one element: less
    // synchronisation than an operation as a whole.
    effect.one_by_one = in_packets(call.plan.protocol) && effect.kind == Effect::Kind::transfer;
    emit(call, std::move(effect));
  }

  std::string_view text_of(const Program& program, std::size_t op) {
    auto& texts = texts_[&program];
    if (texts.empty())
      for (const Op& each : program.ops) texts.push_back(to_string(program, each));
    return texts[op];
  }

  /// A push of packets counts as a transfer: its packets arrive one by one, like written packets.
  static Effect::Kind kind_of(const BoundOp& op, Protocol protocol) {
    switch (op.code) {
      case OpCode::gather:
        break;
      case OpCode::push:
        return in_packets(protocol) ? Effect::Kind::transfer : Effect::Kind::put;
      case OpCode::flush:
        return Effect::Kind::flush;
      case OpCode::signal:
        return Effect::Kind::signal;
      case OpCode::wait:
        return Effect::Kind::wait;
      case OpCode::notify:
        return Effect::Kind::notify;
    }
    return Effect::Kind::transfer;
  }

  void emit(const Running& call, Effect effect) {
    effect.call = call.number;
    call.rank.script.push_back(std::move(effect));
  }

  Elements elements_in(Bytes bytes) const { return Elements{bytes.value() / element_.value()}; }
  /// Packets are memory like any other without the tags. An operation fills the payload of one
  /// packet after the other, from the place of its operand on.
  Elements payload_before(Bytes bytes) const {
    const std::uint64_t packet = bytes.value() / packet_bytes, rest = bytes.value() % packet_bytes;
    return Elements{packet * elements_per_packet(element_)} + elements_in(Bytes{rest});
  }

  /// The memory at an operand's base, and the element at its offset there.
  Piece piece_of(const Running& call, const BoundOperand& operand, const Place& place) const {
    if (operand.in_staging()) return staging_piece(call, operand, place);
    const bool at_peer = operand.in_peer_buffer();
    const auto buffer = at_peer ? static_cast<int>(operand.place) - static_cast<int>(peer_input)
                                : static_cast<int>(operand.base);
    const Memory memory{static_cast<Memory::Kind>(buffer), at_peer ? operand.owner : call.self, 0,
                        call.number};
    const Elements offset = elements_in(Bytes{operand.offset});
    // One scratch for all blocks: it must not carry anything from one phase to the next.
    if (memory.kind == Memory::Kind::scratch)
      return {{.kind = memory.kind, .owner = memory.owner, .form = call.form_of(place.block)},
              offset};
    return {memory, offset + call.plan.block_count * place.block};
  }

  Piece staging_piece(const Running& call, const BoundOperand& operand, const Place& place) const {
    const Rank owner{static_cast<int>(operand.base - BoundOperand::segment_of(Rank{0})) %
                     hosts_.ranks()};
    const Bytes between = layout_.between_regions(call.plan.slots);
    const std::uint64_t region = operand.offset / between.value();
    const Bytes offset{operand.offset - region * between.value()};
    const bool packets = in_packets(call.plan.protocol);
    return {{packets ? Memory::Kind::packets : Memory::Kind::staging, owner,
             static_cast<int>(region), static_cast<std::int64_t>(place.slot_offset),
             hosts_.together(owner, call.self) ? std::nullopt : std::optional{call.self},
             call.form_of(place.block)},
            packets ? payload_before(offset) : elements_in(offset)};
  }

  static constexpr auto peer_input = capstan::Place::peer_input;

  const LoweredProofOptions& options_;
  const Hosts& hosts_;
  const SlotLayout& layout_;
  const Bytes element_;
  ByRank<RankState> ranks_;
  std::map<const Program*, std::vector<std::string>> texts_;  // of operations
  Elements scratch_{};
};

}  // namespace

proof::Result prove_plans(const PlannedCalls& calls, const Hosts& hosts, const SlotLayout& layout,
                          const LoweredProofOptions& options) {
  Scripts scripts{calls, hosts, layout, options};
  proof::Budget unlimited;
  proof::Budget& budget = options.budget ? *options.budget : unlimited;
  proof::Case proof_case{scripts.take(), scripts, budget};
  if (!options.proven) return proof_case.prove();
  const auto digest = proof_case.digest();
  if (const auto known = options.proven->find(digest); known != options.proven->end()) {
    budget.spend(known->second);
    return {};
  }
  const std::uint64_t before = budget.left();
  proof::Result result = proof_case.prove();
  if (result.ok()) options.proven->emplace(digest, before - budget.left());
  return result;
}

proof::Result prove_programs(const std::vector<LoweredCall>& calls, const Hosts& hosts,
                             const LoweredProofOptions& options) {
  const SlotLayout layout{hosts.ranks(), staging_region, options.slots};
  std::deque<ByRank<Plan>> plans;
  PlannedCalls planned;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (i == 0 || calls[i] != calls[i - 1]) {
      plans.push_back(plans_of(calls[i], hosts, layout));
      for (Plan& plan : plans.back())
        if (options.change_program) std::ranges::for_each(plan.programs, options.change_program);
    }
    planned.push_back(&plans.back());
  }
  return prove_plans(planned, hosts, layout, options);
}

}  // namespace capstan
