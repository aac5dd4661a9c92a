// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/device_proof.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <string>
#include <utility>

namespace capstan {
namespace {

using kernels::device::LaneState;
using kernels::device::ProgramArguments;
using kernels::device::ProgramBlock;
using kernels::device::ProgramCode;
using kernels::device::ProgramOp;
using kernels::device::ProgramOperand;
using kernels::device::SegmentShape;
using proof::Effect;
using proof::Memory;
using proof::Piece;

std::vector<Rank> ranks_in(std::uint64_t bits) {
  std::vector<Rank> ranks;
  for (int rank = 0; bits >> rank != 0; ++rank)
    if ((bits >> rank & 1) != 0) ranks.emplace_back(rank);
  return ranks;
}

/// The parts of memory that an operation of a rank accesses.
struct Accesses {
  std::string_view text;
  std::vector<Piece> reads{}, writes{};  // at home
  Elements length{};
};

bool overlap(const Piece& a, Elements length_of_a, const Piece& b, Elements length_of_b) {
  return a.memory == b.memory && a.offset < b.offset + length_of_b &&
         b.offset < a.offset + length_of_a;
}

/// Whether one of two operations writes what the other one accesses.
bool conflict(const Accesses& a, const Accesses& b) {
  const auto meet = [&](const std::vector<Piece>& some, const std::vector<Piece>& others) {
    return std::ranges::any_of(some, [&](const Piece& one) {
      return std::ranges::any_of(
          others, [&](const Piece& other) { return overlap(one, a.length, other, b.length); });
    });
  };
  return meet(a.writes, b.writes) || meet(a.writes, b.reads) || meet(a.reads, b.writes);
}

/// Turns programs into the effects of all that the first lane of each rank does, one list for each
/// rank: what kernels/device/executor.hpp does, step by step.
class Scripts : public proof::BlockLayout {
 public:
  Scripts(const std::vector<const DevicePrograms*>& calls, const DeviceSegments& segments,
          const DeviceProofOptions& options)
      : BlockLayout(options.in_place),
        shape_(segments.shape()),
        element_(calls.front()->plans[Rank{0}].element),
        lanes_(calls.front()->plans.size()) {
    for (std::uint32_t& count : shape_.slot_count) count = std::min(count, options.slots);
    for (const DevicePrograms* const call : calls) {
      int& first_form =
          forms_.try_emplace(call, most_programs * static_cast<int>(forms_.size())).first->second;
      add_call(*call, first_form);
    }
  }

  ByRank<std::vector<Effect>> take() {
    ByRank<std::vector<Effect>> scripts;
    for (Lane& lane : lanes_) scripts.push_back(std::move(lane.script));
    return scripts;
  }
  /// The flaws of threads and lanes, which have no order but that of barriers.
  const std::vector<proof::Finding>& findings() const { return findings_; }

 private:
  static constexpr int most_programs = 2;

  struct Lane {
    LaneState state{};
    std::vector<Effect> script{};
  };
  /// A block of a call of one rank.
  struct Running {
    const DeviceProgram& program;
    const ProgramBlock& block;
    Rank self;
    int call, form;
    std::uint64_t buffer_offset, slot_offset = 0;
    std::vector<Accesses> since_barrier{}, of_buffers{};
  };

  /// A rank sees of another's blocks what that one has told it.
  bool shares_memory(Rank a, Rank b) const override { return a == b; }

  Elements extent_of_other(const Memory& memory) const override {
    switch (memory.kind) {
      case Memory::Kind::packets:
        return payload_before(shape_.slots_begin[0] - shape_.slots_begin[1]);
      case Memory::Kind::staging:
        return elements_in(shape_.lane_bytes - shape_.slots_begin[0]);
      default:
        return scratch_;
    }
  }

  void add_call(const DevicePrograms& call, int first_form) {
    const Plan& first = call.plans[Rank{0}];
    const int number = static_cast<int>(blocks().size());
    BlockLayout::add(
        {first.call.collective, first.call.shape, lanes_.size(), claims_of(first.guarantees)});
    for (const Rank self : all_ranks(lanes_.size())) {
      const DeviceProgram& program = call.programs[self];
      scratch_ = std::max(scratch_, elements_in(program.scratch.value()));
      emit(self, number, {.kind = Effect::Kind::enter, .block = number});
      add_blocks(program, self, number, first_form);
      emit(self, number, {.kind = Effect::Kind::leave});
    }
  }

  void add_blocks(const DeviceProgram& program, Rank self, int call, int first_form) {
    ProgramArguments arguments{};
    program.put_into(arguments);
    std::vector<std::vector<Accesses>> of_blocks;
    for (std::uint64_t b = 0; b < arguments.block_count; ++b) {
      const std::uint32_t index = arguments.program_of(b);
      Running running{.program = program,
                      .block = program.blocks[index],
                      .self = self,
                      .call = call,
                      .form = first_form + static_cast<int>(index),
                      .buffer_offset = b * arguments.block_distance};
      run_block(running);
      of_blocks.push_back(std::move(running.of_buffers));
    }
    check_blocks(of_blocks, self);
  }

  void run_block(Running& running) {
    const ProgramBlock& block = running.block;
    LaneState& state = lanes_[running.self].state;
    const std::uint32_t kind = running.program.packets ? 1 : 0;
    const std::uint64_t number = ++state.blocks;
    const std::uint64_t slot = shape_.slot(kind, state.slots_used[kind]++);
    running.slot_offset = shape_.slot_offset(kind, slot) - shape_.slots_begin[kind];
    if (block.readers != 0) await_readers(running, state.slots[kind][slot], number);
    for (std::uint32_t i = block.first_op; i < block.end_op; ++i) execute(running, i);
    emit(running.self, running.call, {.kind = Effect::Kind::finish, .block = block_of(number)});
    for (const Rank writer : ranks_in(block.writers))
      emit(running.self, running.call, {.kind = Effect::Kind::tell, .peer = writer});
  }

  void await_readers(const Running& running, LaneState::Slot& last, std::uint64_t number) {
    if (last.readers != 0)
      emit(running.self, running.call,
           {.kind = Effect::Kind::acquire,
            .block = block_of(last.must_finish),
            .peers = ranks_in(last.readers)});
    last = {running.block.readers, number};
  }

  void execute(Running& running, std::uint32_t index) {
    const ProgramOp& op = running.program.ops[index];
    if (op.meets != 0) running.since_barrier.clear();
    switch (op.code) {
      case ProgramCode::gather:
        return gather(running, index);
      case ProgramCode::signal:
        return signal(running, index);
      case ProgramCode::wait:
        for (const Rank peer : ranks_in(op.peers))
          emit(running.self, running.call,
               {.kind = Effect::Kind::wait, .step = static_cast<int>(index), .peer = peer});
        return running.since_barrier.clear();
    }
  }

  /// A thread raises a flag for all threads.
  void signal(const Running& running, std::uint32_t index) {
    if (!running.since_barrier.empty())
      report(running.self, index,
             fmt::format("may signal before all threads have done {}",
                         running.since_barrier.back().text));
    for (const Rank peer : ranks_in(running.program.ops[index].peers))
      emit(running.self, running.call,
           {.kind = Effect::Kind::signal, .step = static_cast<int>(index), .peer = peer});
  }

  void gather(Running& running, std::uint32_t index) {
    const ProgramOp& op = running.program.ops[index];
    const bool packets = running.program.packets;
    Effect effect{.kind = Effect::Kind::transfer,
                  .completes = op.divisor > 1,
                  .one_by_one = packets,
                  .block = block_of(lanes_[running.self].state.blocks),
                  .step = static_cast<int>(index),
                  .length = Elements{op.count}};
    effect.text = texts_.emplace_back(fmt::format("operation {}", index));
    const auto operands =
        std::span{running.program.operands}.subspan(running.block.first_operand + op.first_source);
    for (std::uint32_t i = 0; i < op.source_count; ++i)
      effect.sources.push_back(piece_of(running, operands[i], (op.staged_sources >> i & 1) != 0));
    for (std::uint32_t i = 0; i < op.destination_count; ++i)
      effect.destinations.push_back(
          piece_of(running, operands[op.source_count + i], (op.staged_destinations >> i & 1) != 0));
    check_threads(running, accesses_of(effect), index);
    emit(running.self, running.call, std::move(effect));
    // Readers of packets poll, and never sleep.
    if (packets && op.staged_destinations != 0)
      for (const Rank reader : ranks_in(running.block.readers))
        emit(running.self, running.call, {.kind = Effect::Kind::notify, .peer = reader});
  }

  Accesses accesses_of(const Effect& effect) const {
    Accesses accesses{.text = effect.text, .length = effect.length};
    for (const Piece& source : effect.sources) accesses.reads.push_back(home(source));
    for (const Piece& destination : effect.destinations)
      accesses.writes.push_back(home(destination));
    return accesses;
  }

  /// Each operation deals its elements to threads in its own way: what it accesses another thread
  /// may still be writing, unless all have met in between.
  void check_threads(Running& running, Accesses own, std::uint32_t index) {
    for (const Accesses& former : running.since_barrier)
      if (conflict(own, former))
        report(running.self, index,
               fmt::format("accesses what other threads may not have done of {}, without a barrier "
                           "in between",
                           former.text));
    running.of_buffers.push_back(own);
    running.since_barrier.push_back(std::move(own));
  }

  /// Other lanes run the other blocks at the same time.
  void check_blocks(const std::vector<std::vector<Accesses>>& of_blocks, Rank self) {
    const auto is_users = [](const Accesses& access) {
      const auto of_call = [](const Piece& piece) {
        return piece.memory.kind <= Memory::Kind::output;
      };
      return std::ranges::any_of(access.reads, of_call) ||
             std::ranges::any_of(access.writes, of_call);
    };
    for (std::size_t b = 0; b < of_blocks.size(); ++b)
      for (std::size_t other = 0; other < b; ++other)
        for (const Accesses& one : of_blocks[b])
          for (const Accesses& two : of_blocks[other])
            if (is_users(one) && is_users(two) && conflict(users(one), users(two)))
              return report(self, 0,
                            fmt::format("of block {} accesses what block {} writes, which another "
                                        "lane may run at the same time",
                                        b, other));
  }
  /// Without the memory that each lane has for itself.
  static Accesses users(Accesses accesses) {
    const auto of_lane = [](const Piece& piece) {
      return piece.memory.kind > Memory::Kind::output;
    };
    std::erase_if(accesses.reads, of_lane);
    std::erase_if(accesses.writes, of_lane);
    return accesses;
  }

  /// The memory at the address that the kernel works out, and the element there.
  Piece piece_of(const Running& running, const ProgramOperand& operand, bool staged) const {
    if (operand.base > 2) return segment_piece(running, operand, staged);
    Memory memory{static_cast<Memory::Kind>(operand.base), running.self, 0, running.call};
    // One scratch for all blocks of a lane: nothing is carried from one to the next.
    if (operand.base == 2)
      return {{.kind = memory.kind, .owner = memory.owner, .form = running.form},
              elements_in(operand.offset)};
    return {memory, elements_in(running.buffer_offset + operand.offset)};
  }
  Piece segment_piece(const Running& running, const ProgramOperand& operand, bool staged) const {
    const Rank owner{static_cast<int>(operand.base - 3)};
    const std::uint64_t at = running.slot_offset + operand.offset;
    const bool packets = running.program.packets && staged;
    return {{.kind = packets ? Memory::Kind::packets : Memory::Kind::staging, .owner = owner},
            packets ? payload_before(at) : elements_in(at)};
  }

  Elements elements_in(std::uint64_t bytes) const { return Elements{bytes / element_.value()}; }
  Elements payload_before(std::uint64_t bytes) const {
    constexpr std::uint64_t stride = kernels::device::packet_stride;
    return Elements{bytes / stride * elements_per_packet(element_)} + elements_in(bytes % stride);
  }
  static int block_of(std::uint64_t number) { return static_cast<int>(number) - 1; }

  void emit(Rank self, int call, Effect effect) {
    effect.call = call;
    lanes_[self].script.push_back(std::move(effect));
  }
  void report(Rank self, std::uint32_t op, const std::string& what) {
    findings_.push_back({proof::Flaw::race, self, static_cast<int>(op),
                         fmt::format("race: operation {} of rank {} {}", op, self.value(), what)});
  }

  SegmentShape shape_;
  const Bytes element_;
  ByRank<Lane> lanes_;
  std::map<const DevicePrograms*, int> forms_;
  std::deque<std::string> texts_;
  std::vector<proof::Finding> findings_;
  Elements scratch_{};
};

}  // namespace

DevicePrograms::DevicePrograms(const ByRank<Plan>& of_ranks) : plans(of_ranks) {
  for (const Plan& plan : plans) programs.push_back(DeviceProgram{plan, plans.size()});
}

proof::Result prove_on_devices(const std::vector<const DevicePrograms*>& calls,
                               const DeviceSegments& segments, const DeviceProofOptions& options) {
  Scripts scripts{calls, segments, options};
  proof::Budget unlimited;
  proof::Case proof_case{scripts.take(), scripts, options.budget ? *options.budget : unlimited};
  proof::Result result = proof_case.prove();
  result.findings.insert(result.findings.begin(), scripts.findings().begin(),
                         scripts.findings().end());
  return result;
}

AlgorithmProof prove_on_devices(const PlannedCall& planned, const DeviceSegments& segments,
                                proof::Budget& budget) {
  const Algorithm& algorithm = *planned.choice.algorithm;
  const Call few = with_few_blocks(planned.call, planned.block);
  const auto plans = make_plans(few, planned.choice, planned.hosts, planned.block, planned.layout,
                                planned.long_read);
  const DevicePrograms programs{plans};
  AlgorithmProof proof;
  for (const bool in_place : {true, false}) {
    const auto result = prove_on_devices({&programs, &programs, &programs, &programs}, segments,
                                         {.in_place = in_place, .budget = &budget});
    const std::string text = name_of_case(
        algorithm, planned.hosts, few.shape,
        fmt::format("{}on devices, {}", in_place ? "in place, " : "", planned.choice.manner()));
    ++proof.proofs;
    for (const proof::Finding& finding : result.findings)
      proof.findings.push_back(flaw_of(finding, text));
  }
  return proof;
}

}  // namespace capstan
