#include "core/lowering/verify.hpp"

#include <array>
#include <map>

#include "core/lowering/slots.hpp"

namespace capstan {
namespace {

using proof::Effect;
using proof::Memory;

/// The programs of all ranks for a block of one shape.
std::vector<Program> programs_of(const LoweredCall& call, const Shape& shape, const Hosts& hosts) {
  std::vector<Schedule> schedules;
  for (int rank = 0; rank < hosts.ranks(); ++rank)
    schedules.push_back(call.algorithm->schedule(Group::world(hosts, Rank{rank}), shape));
  return lower_all(
      [&](Rank peer) -> const Schedule& {
        return schedules[static_cast<std::size_t>(peer.value())];
      },
      hosts, call.protocol);
}

/// Where a block's staging buffers lie, numbered as the executor numbers them.
struct Slot {
  SlotKind kind = SlotKind::staging;
  int number = 0;

  auto operator<=>(const Slot&) const = default;
};

/// What has to be finished before a slot is written again, and by whom.
struct Acquisition {
  int block = -1;
  std::vector<int> readers{};
};

class Scripts : public proof::BlockLayout {
 public:
  Scripts(const std::vector<LoweredCall>& calls, const Hosts& hosts, bool in_place,
          const std::function<void(Program&)>& change)
      : BlockLayout(in_place),
        hosts_(hosts),
        ranks_(hosts.ranks()),
        scripts_(static_cast<std::size_t>(ranks_)) {
    for (std::size_t i = 0; i < calls.size(); ++i) add(calls[i], static_cast<int>(i), change);
  }

  std::vector<std::vector<Effect>> take() { return std::move(scripts_); }

 private:
  Elements extent_of_other(const Memory& memory) const override {
    constexpr Elements unlimited{
        1 << 20};  // staging buffers are checked against their slot by make_plan
    return memory.kind == Memory::Kind::scratch ? scratch_ : std::min(unlimited, staging_);
  }

  void add(const LoweredCall& call, int number, const std::function<void(Program&)>& change) {
    const int first = static_cast<int>(slots_.size());
    const int blocks = static_cast<int>(call.blocks.size());
    const Guarantees& guarantees = call.algorithm->guarantees;
    std::vector<std::vector<Program>> programs;      // by block and rank
    std::vector<std::vector<Acquisition>> acquired;  // by block and rank
    for (const Shape& shape : call.blocks) {
      programs.push_back(programs_of(call, shape, hosts_));
      if (change) std::ranges::for_each(programs.back(), change);
      BlockLayout::add(call.algorithm->collective, shape, ranks_, guarantees.ordered);
      acquired.push_back(
          next_slot(kind_of(call, programs.back()), programs.back(), first, guarantees.paced));
      for (const Program& program : programs.back()) note(program);
    }
    const int phases = programs.front().front().phases;
    for (int rank = 0; rank < ranks_; ++rank) {
      auto& script = scripts_[static_cast<std::size_t>(rank)];
      int last_phase = 0;
      for (const auto& block : programs)
        last_phase =
            std::max(last_phase, last_reading_phase(block[static_cast<std::size_t>(rank)]));
      for (int block = 0; block < blocks; ++block)
        script.push_back({.kind = Effect::Kind::enter, .call = number, .block = first + block});
      proof::for_each_phase(blocks, phases, [&](int block, int phase) {
        const auto b = static_cast<std::size_t>(block);
        const Acquisition& before = acquired[b][static_cast<std::size_t>(rank)];
        if (phase == 0 && !before.readers.empty())
          script.push_back({.kind = Effect::Kind::acquire,
                            .call = number,
                            .block = before.block,
                            .peers = before.readers});
        const Program& program = programs[b][static_cast<std::size_t>(rank)];
        for (const Op& op : program.ops)
          if (op.phase == phase && op.code != OpCode::notify)
            push(script, effect_of(program, op, number, first + block), call.protocol);
        if (phase == last_phase && !guarantees.paced)
          script.push_back({.kind = Effect::Kind::finish, .call = number, .block = first + block});
      });
      for (int block = 0; block < blocks && guarantees.paced; ++block)
        script.push_back({.kind = Effect::Kind::finish, .call = number, .block = first + block});
      for (int peer = 0; peer < ranks_; ++peer)
        script.push_back({.kind = Effect::Kind::flush, .call = number, .peer = Rank{peer}});
      script.push_back(
          {.kind = Effect::Kind::leave, .synchronizes = guarantees.synchronizes, .call = number});
    }
    if (guarantees.synchronizes) known_finished_ = first;
  }

  /// Packets of one gather are waited for and sent one after the other, in pieces as small as one
  /// element: less synchronisation than a gather as a whole.
  static void push(std::vector<Effect>& script, Effect effect, Protocol protocol) {
    if (!in_packets(protocol) || effect.kind != Effect::Kind::transfer) {
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

  /// Gives the next block a slot. By rank, who has to have finished what before it is written: see
  /// Executor::acquire_slot().
  std::vector<Acquisition> next_slot(SlotKind kind, const std::vector<Program>& programs,
                                     int first_of_call, bool paced) {
    const int number = used_[static_cast<std::size_t>(kind)]++ % slots(kind);
    const Slot slot{kind, number};
    std::vector<Acquisition> before;
    for (std::size_t rank = 0; rank < programs.size(); ++rank) {
      Acquisition& last = last_user_[{slot, rank}];
      const bool known = last.block < known_finished_ || (paced && last.block >= first_of_call);
      auto readers = readers_of(programs[rank]);
      before.push_back(known || readers.empty() ? Acquisition{} : last);
      if (!readers.empty()) last = {static_cast<int>(slots_.size()), std::move(readers)};
    }
    slots_.push_back(slot);
    return before;
  }

  /// As few as of any kind, so that they come round: more of them forbid less.
  static int slots(SlotKind kind) {
    return is_packets(kind) ? standard_slots.count.packets : standard_slots.count.staging;
  }

  /// Small ones here are those of one unit, so that calls of several kinds mix.
  static SlotKind kind_of(const LoweredCall& call, const std::vector<Program>& programs) {
    const bool small =
        call.blocks.size() == 1 && std::ranges::all_of(programs, [](const Program& program) {
          return std::ranges::max(program.staging) <= staging_unit;
        });
    if (in_packets(call.protocol)) return small ? SlotKind::small_packets : SlotKind::packets;
    return small ? SlotKind::tiny_staging : SlotKind::staging;
  }

  void note(const Program& program) {
    scratch_ = std::max(scratch_, program.extents.scratch);
    for (const Elements staging : program.staging) staging_ = std::max(staging_, staging);
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
    if (op.code == OpCode::flush) effect.kind = Effect::Kind::flush;
    // Packets arrive one by one: it is as if they were written there.
    if (op.code == OpCode::push && !program.packets) effect.kind = Effect::Kind::put;
    if (!has_operands(op.code)) return effect;
    for (const Operand& operand : program.destinations(op)) {
      Memory memory = memory_of(operand, program.self, block);
      if (op.code == OpCode::push) memory.viewer = op.peer.value();
      effect.destinations.push_back({memory, operand.offset});
    }
    for (const Operand& operand : program.sources(op))
      effect.sources.push_back({memory_of(operand, program.self, block), operand.offset});
    return effect;
  }

  Memory memory_of(const Operand& operand, Rank self, int block) const {
    if (operand.place == Place::staging) {
      const Slot slot = slots_[static_cast<std::size_t>(block)];
      constexpr int most_slots = 64;
      const bool packets = is_packets(slot.kind);
      return {packets ? Memory::Kind::packets : Memory::Kind::staging, operand.owner,
              operand.region, static_cast<int>(slot.kind) * most_slots + slot.number,
              hosts_.together(operand.owner, self) ? -1 : self.value()};
    }
    if (operand.place == Place::peer_input) return {Memory::Kind::input, operand.owner, 0, block};
    if (operand.place == Place::peer_output) return {Memory::Kind::output, operand.owner, 0, block};
    // One scratch for all blocks: it must not carry anything from one phase to the next.
    return {static_cast<Memory::Kind>(operand.place), self, 0,
            operand.place == Place::scratch ? 0 : block};
  }

  const Hosts& hosts_;
  const int ranks_;
  std::vector<std::vector<Effect>> scripts_;
  std::vector<Slot> slots_;                                        // by block
  std::map<std::pair<Slot, std::size_t>, Acquisition> last_user_;  // by slot and rank
  Elements scratch_{}, staging_{};
  std::array<int, slot_kinds> used_{};
  int known_finished_ = 0;
};

}  // namespace

proof::Verdict prove_programs(const std::vector<LoweredCall>& calls, const Hosts& hosts,
                              bool in_place, const std::function<void(Program&)>& change) {
  Scripts scripts{calls, hosts, in_place, change};
  proof::Machine machine{scripts.take(), scripts};
  machine.run();
  scripts.check_results(machine);
  return {machine.findings()};
}

}  // namespace capstan
