#include "core/runtime/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/ir/error.hpp"

namespace capstan {
namespace {

/// Outputs at least this long are written past the cache: they would only push out what is still
/// needed there.
constexpr Bytes streamed_output{4 << 20};

/// Packets that one unit of a board becomes.
std::uint64_t packets_per_unit(Bytes element) {
  return packets_for(bytes_of(board_unit, element));
}

Bytes board_bytes(Elements board, Form form, Bytes element) {
  if (form == Form::flags) return bytes_of(board, element);
  return Bytes{board.value() / board_unit.value() * packets_per_unit(element) * sizeof(Packet)};
}

/// The largest board that any rank needs for a block of `count` elements.
Elements largest_board(const Algorithm& algorithm, Form form, int ranks, Elements count) {
  Elements largest;
  for (int rank = 0; rank < ranks; ++rank)
    largest = std::max(
        largest, board_extent(algorithm.schedule(Group::world(ranks, Rank{rank}), count), form));
  return largest;
}

/// A program for a block of `count` elements, as seen by one rank.
Program lower_block(const Algorithm& algorithm, Form form, int ranks, Rank self, Elements count) {
  std::map<Rank, Schedule> schedules;
  const auto schedule_of = [&](Rank rank) -> const Schedule& {
    const auto found = schedules.find(rank);
    if (found != schedules.end()) return found->second;
    return schedules.emplace(rank, algorithm.schedule(Group::world(ranks, rank), count))
        .first->second;
  };
  return lower(schedule_of, self, form);
}

BoundOperand bind(const Operand& operand, Form form, Bytes element, const SegmentLayout& layout) {
  if (operand.place != Place::board)
    return {static_cast<std::uint32_t>(operand.place), bytes_of(operand.offset, element).value()};
  return {BoundOperand::first_board + static_cast<std::uint32_t>(operand.owner.value()),
          (layout.region(form == Form::packets) * operand.region +
           board_bytes(operand.offset, form, element))
              .value()};
}

BoundProgram bind(Program program, const Call& call, int ranks, const SegmentLayout& layout) {
  const Form form = program.packets ? Form::packets : Form::flags;
  const Bytes element = size_of(call.type);
  BoundProgram bound;
  bound.phase_end.assign(static_cast<std::size_t>(program.phases), 0);
  for (const Operand& operand : program.operands)
    bound.operands.push_back(bind(operand, form, element, layout));
  for (const Op& op : program.ops) {
    const bool divide = op.completes && call.op == ReduceOp::average;
    bound.ops.push_back({.code = op.code,
                         .destination_count = op.destination_count,
                         .source_count = op.source_count,
                         .first_operand = op.first_operand,
                         .divisor = divide ? static_cast<std::uint32_t>(ranks) : 1,
                         .peer = op.peer.value(),
                         .count = op.length.value()});
    bound.phase_end[op.phase] = static_cast<std::uint32_t>(bound.ops.size());
  }
  for (std::size_t k = 1; k < bound.phase_end.size(); ++k)
    bound.phase_end[k] = std::max(bound.phase_end[k], bound.phase_end[k - 1]);
  bound.source = std::move(program);
  return bound;
}

/// The largest block, in elements, that is at most `limit` and whose boards fit a region.
Elements fitting_block(const Algorithm& algorithm, int ranks, Elements limit, Bytes element,
                       Bytes region) {
  Elements block = limit;
  while (block > Elements{1} && board_bytes(largest_board(algorithm, Form::flags, ranks, block),
                                            Form::flags, element) > region)
    block = block / 2;
  return block;
}

/// Cuts `count` into equal blocks of at most `largest` elements; block starts stay on cache lines.
Elements equal_blocks(Elements count, Elements largest) {
  const std::uint64_t blocks = (count.value() + largest.value() - 1) / largest.value();
  const std::uint64_t even = (count.value() + blocks - 1) / blocks;
  const std::uint64_t unit = board_unit.value();
  return Elements{std::min(largest.value(), (even + unit - 1) / unit * unit)};
}

/// A call of any size that fits goes in one block; a longer one is cut.
Elements block_of(const Call& call, const Choice& choice, int ranks, Bytes block_bytes,
                  const SegmentLayout& layout) {
  if (choice.form == Form::packets || ranks == 1) return call.count;
  const Bytes element = size_of(call.type);
  const Elements limit{std::max<std::uint64_t>(block_bytes.value() / element.value(), 1)};
  const Elements fitting = fitting_block(*choice.algorithm, ranks, std::min(call.count, limit),
                                         element, layout.region(false));
  return call.count <= fitting ? call.count : equal_blocks(call.count, fitting);
}

std::uint64_t mix(std::uint64_t x) {
  // Finalizer of SplitMix64 (Steele, Lea and Flood, 2014).
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

constexpr int algorithm_shift = 32, form_shift = 40, block_shift = 48;

CallMark mark_of(const Plan& plan) {
  const auto index =
      static_cast<std::uint64_t>(plan.algorithm - algorithms(plan.call.collective).data());
  return {.signature = plan.call.signature() | index << algorithm_shift |
                       static_cast<std::uint64_t>(plan.form) << form_shift |
                       mix(plan.block_count.value()) << block_shift,
          .count = plan.call.count.value()};
}

}  // namespace

std::uint32_t CallMark::digest() const {
  return static_cast<std::uint32_t>(mix(mix(signature) + count));
}

std::string to_string(const CallMark& mark) {
  const Call call = Call::unpack(mark.signature, Elements{mark.count});
  const auto known = algorithms(call.collective);
  const std::size_t index = mark.signature >> algorithm_shift & 0xff;
  return fmt::format("{} by {}", to_string(call),
                     index < known.size() ? known[index].name : "an unknown algorithm");
}

bool fits_packets(const Algorithm& algorithm, int ranks, const Call& call) {
  // A board holds at least what a rank sends once; most calls are decided without any schedule.
  constexpr Bytes region = SegmentLayout::packet_slot / 2;
  if (bytes_of(call.count, size_of(call.type)) > region) return false;
  return board_bytes(largest_board(algorithm, Form::packets, ranks, call.count), Form::packets,
                     size_of(call.type)) <= region;
}

Plan make_plan(const Call& call, const Choice& choice, int ranks, Rank self, Bytes block_bytes,
               const SegmentLayout& layout) {
  const Bytes element = size_of(call.type);
  const auto program = [&](Elements count) {
    return bind(lower_block(*choice.algorithm, choice.form, ranks, self, count), call, ranks,
                layout);
  };
  if (choice.form == Form::packets && !fits_packets(*choice.algorithm, ranks, call))
    throw InvalidArgument(
        fmt::format("{} does not fit the packets of {}", to_string(call), choice.algorithm->name));
  Plan plan{.call = call, .algorithm = choice.algorithm, .form = choice.form};
  plan.element = element;
  plan.reduce = kernels::reduce_kernel(call.type, call.op);
  plan.stream_output = bytes_of(call.count, element) >= streamed_output;
  plan.block_count = block_of(call, choice, ranks, block_bytes, layout);
  plan.block = program(plan.block_count);
  if (plan.block_count > Elements{0}) {
    plan.blocks = std::max<std::uint64_t>(
        (call.count.value() + plan.block_count.value() - 1) / plan.block_count.value(), 1);
    const Elements rest = call.count - plan.block_count * (plan.blocks - 1);
    if (rest != plan.block_count) plan.last_block = program(rest);
  }
  plan.mark = mark_of(plan);
  plan.scratch = bytes_of(plan.block.source.extents.scratch, element);
  if (plan.last_block)
    plan.scratch =
        std::max(plan.scratch, bytes_of(plan.last_block->source.extents.scratch, element));
  return plan;
}

}  // namespace capstan
