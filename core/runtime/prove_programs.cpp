#include "core/runtime/prove_programs.hpp"

#include <map>

#include "core/runtime/segment.hpp"

namespace capstan {
namespace {

using proof::Effect;
using proof::Memory;

/// The programs of all ranks for blocks of one size.
std::vector<Program> programs_of(const LoweredCall& call, Elements count, int ranks) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < ranks; ++rank)
    schedules.push_back(call.algorithm->schedule(Group::world(ranks, Rank{rank}), count));
  std::vector<Program> programs;
  for (int rank = 0; rank < ranks; ++rank)
    programs.push_back(lower(
        [&](Rank peer) -> const Schedule& {
          return schedules[static_cast<std::size_t>(peer.value())];
        },
        Rank{rank}, call.form));
  return programs;
}

/// Where a block's boards lie, numbered as the executor numbers them.
struct Slot {
  Memory::Kind kind = Memory::Kind::board;
  int instance = 0;
};

class Scripts {
 public:
  Scripts(const std::vector<LoweredCall>& calls, int ranks)
      : ranks_(ranks), scripts_(static_cast<std::size_t>(ranks)) {
    for (std::size_t i = 0; i < calls.size(); ++i) add(calls[i], static_cast<int>(i));
  }

  std::vector<std::vector<Effect>> take() { return std::move(scripts_); }
  const std::vector<Extents>& extents() const { return extents_; }

  static Elements extent(const void* context, const Memory& memory) {
    const auto& scripts = *static_cast<const Scripts*>(context);
    constexpr Elements unlimited{1 << 20};  // boards are checked against their slot by make_plan
    switch (memory.kind) {
      case Memory::Kind::input:
        return scripts.extents_[static_cast<std::size_t>(memory.instance)].input;
      case Memory::Kind::output:
        return scripts.extents_[static_cast<std::size_t>(memory.instance)].output;
      case Memory::Kind::scratch:
        return scripts.scratch_;
      case Memory::Kind::board:
      case Memory::Kind::packets:
        break;
    }
    return std::min(unlimited, scripts.board_);
  }

 private:
  void add(const LoweredCall& call, int number) {
    const auto full = programs_of(call, call.block, ranks_);
    const auto last = programs_of(call, call.last, ranks_);
    const auto block_programs = [&](int block) -> const std::vector<Program>& {
      return block + 1 == call.blocks ? last : full;
    };
    const int first = static_cast<int>(extents_.size());
    for (int block = 0; block < call.blocks; ++block) {
      extents_.push_back(block_programs(block).front().extents);
      slots_.push_back(next_slot(call.form));
      for (const Program& program : block_programs(block)) note(program);
    }
    for (int rank = 0; rank < ranks_; ++rank) {
      auto& script = scripts_[static_cast<std::size_t>(rank)];
      for (int block = 0; block < call.blocks; ++block)
        script.push_back({.kind = Effect::Kind::enter, .call = number, .block = first + block});
      proof::for_each_phase(call.blocks, full.front().phases, [&](int block, int phase) {
        const Program& program = block_programs(block)[static_cast<std::size_t>(rank)];
        for (const Op& op : program.ops)
          if (op.phase == phase && op.code != OpCode::notify)
            push(script, effect_of(program, op, number, first + block), call.form);
      });
      script.push_back({.kind = Effect::Kind::leave, .call = number});
    }
  }

  /// Packets of one gather are waited for and sent one after the other, in pieces as small as one
  /// element: less synchronisation than a gather as a whole.
  static void push(std::vector<Effect>& script, Effect effect, Form form) {
    if (form == Form::flags || effect.kind != Effect::Kind::transfer) {
      script.push_back(std::move(effect));
      return;
    }
    const Elements length = effect.length;
    effect.length = Elements{1};
    for (Elements i; i < length; i += Elements{1}) {
      script.push_back(effect);
      for (auto* pieces : {&effect.destinations, &effect.sources})
        for (proof::Piece& piece : *pieces) piece.offset += Elements{1};
    }
  }

  Slot next_slot(Form form) {
    if (form == Form::packets)
      return {Memory::Kind::packets, packet_calls_++ % SegmentLayout::packet_slots};
    return {Memory::Kind::board, blocks_++ % SegmentLayout::board_slots};
  }

  void note(const Program& program) {
    scratch_ = std::max(scratch_, program.extents.scratch);
    for (const Elements board : program.board) board_ = std::max(board_, board);
  }

  Effect effect_of(const Program& program, const Op& op, int call, int block) const {
    Effect effect{.completes = op.completes,
                  .call = call,
                  .block = block,
                  .step = static_cast<int>(op.step),
                  .peer = op.peer,
                  .length = op.length};
    effect.text = to_string(program, op);
    if (op.code == OpCode::signal) effect.kind = Effect::Kind::signal;
    if (op.code == OpCode::wait) effect.kind = Effect::Kind::wait;
    if (op.code != OpCode::gather) return effect;
    for (const Operand& operand : program.destinations(op))
      effect.destinations.push_back({memory_of(operand, program.self, block), operand.offset});
    for (const Operand& operand : program.sources(op))
      effect.sources.push_back({memory_of(operand, program.self, block), operand.offset});
    return effect;
  }

  Memory memory_of(const Operand& operand, Rank self, int block) const {
    if (operand.place == Place::board) {
      const Slot slot = slots_[static_cast<std::size_t>(block)];
      return {slot.kind, operand.owner, operand.region, slot.instance};
    }
    // Scratch is used within one block at a time: blocks of streams with scratch do not overlap.
    return {static_cast<Memory::Kind>(operand.place), self, 0,
            operand.place == Place::scratch ? 0 : block};
  }

  int ranks_;
  std::vector<std::vector<Effect>> scripts_;
  std::vector<Extents> extents_;  // by block
  std::vector<Slot> slots_;       // by block
  Elements scratch_{}, board_{};
  int packet_calls_ = 0, blocks_ = 0;
};

}  // namespace

proof::Verdict prove_programs(const std::vector<LoweredCall>& calls, int ranks, bool in_place) {
  Scripts scripts{calls, ranks};
  proof::Machine machine{scripts.take(), in_place, &scripts, &Scripts::extent};
  machine.run();
  proof::check_results(machine, Collective::all_reduce, ranks, scripts.extents());
  return {machine.findings()};
}

}  // namespace capstan
