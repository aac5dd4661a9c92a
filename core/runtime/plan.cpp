#include "core/runtime/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/ir/error.hpp"
#include "core/runtime/exports.hpp"

namespace capstan {
namespace {

/// Packets that one unit of a board becomes.
std::uint64_t packets_per_unit(Bytes element) {
  return packets_for(board_unit, element);
}

Bytes board_bytes(Elements board, Form form, Bytes element) {
  if (!in_packets(form)) return bytes_of(board, element);
  return Bytes{board.value() / board_unit.value() * packets_per_unit(element) * sizeof(Packet)};
}

/// The largest board that any rank needs for a block of this shape.
Elements largest_board(const Algorithm& algorithm, Form form, const Hosts& hosts,
                       const Shape& shape) {
  Elements largest;
  for (int rank = 0; rank < hosts.ranks(); ++rank)
    largest = std::max(
        largest, board_extent(algorithm.schedule(Group::world(hosts, Rank{rank}), shape), form));
  return largest;
}

/// A program for a block of this shape, as seen by one rank.
Program lower_block(const Algorithm& algorithm, Form form, const Hosts& hosts, Rank self,
                    const Shape& shape) {
  std::map<Rank, Schedule> schedules;
  const auto schedule_of = [&](Rank rank) -> const Schedule& {
    const auto found = schedules.find(rank);
    if (found != schedules.end()) return found->second;
    return schedules.emplace(rank, algorithm.schedule(Group::world(hosts, rank), shape))
        .first->second;
  };
  return lower(schedule_of, self, form, hosts);
}

/// Where the elements of a block's buffer lie in the call's: part i of the one is a piece of part i
/// of the other. The default is the same place.
class PartMap {
 public:
  PartMap() = default;
  PartMap(Blocks block, Blocks call) : block_(std::move(block)), call_(std::move(call)) {}

  /// The place of the element at `offset`; `length` is cut to what follows it there.
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

/// Turns programs for blocks of one call into what the executor runs.
class Binder {
 public:
  /// `long_output`: it exceeds the cache.
  Binder(const Call& call, Form form, SlotKind slots, const Hosts& hosts, Rank self,
         const SegmentLayout& layout, bool long_output)
      : call_(call),
        form_(form),
        slots_(slots),
        long_output_(long_output),
        hosts_(hosts),
        ranks_(hosts.ranks()),
        self_(self.value()),
        layout_(layout) {}

  BoundProgram bind(Program program, const Shape& block) const {
    std::vector<PartMap> inputs, outputs;  // by rank
    for (int rank = 0; rank < ranks_; ++rank) {
      const bool wanted = rank == self_ || reads_buffers(form_);
      inputs.push_back(wanted ? map_of(block, &Contract::input_blocks, rank) : PartMap{});
      outputs.push_back(wanted ? map_of(block, &Contract::output_blocks, rank) : PartMap{});
    }
    BoundProgram bound;
    bound.phase_end.assign(static_cast<std::size_t>(program.phases), 0);
    for (std::uint32_t i = 0; i < program.ops.size(); ++i) {
      bind(program, i, inputs, outputs, bound);
      bound.phase_end[program.ops[i].phase] = static_cast<std::uint32_t>(bound.ops.size());
    }
    for (std::size_t k = 1; k < bound.phase_end.size(); ++k)
      bound.phase_end[k] = std::max(bound.phase_end[k], bound.phase_end[k - 1]);
    if (in_packets(form_)) drop_last_notices(bound);
    bound.readers = std::make_shared<const std::vector<int>>(readers_of(program));
    bound.source = std::move(program);
    return bound;
  }

 private:
  using BlocksOf = std::optional<Blocks> (Contract::*)(int) const;

  PartMap map_of(const Shape& block, BlocksOf blocks_of, int rank) const {
    const auto parts = (call_.contract(ranks_).*blocks_of)(rank);
    if (!parts || block == call_.shape) return {};
    return {*(Contract{call_.collective, block, ranks_}.*blocks_of)(rank), *parts};
  }

  /// One operation becomes several where its operands reach over the ends of parts.
  void bind(const Program& program, std::uint32_t index, const std::vector<PartMap>& inputs,
            const std::vector<PartMap>& outputs, BoundProgram& bound) const {
    const Op& op = program.ops[index];
    const auto operands = std::span{program.operands}.subspan(
        op.first_operand, has_operands(op.code) ? op.destination_count + op.source_count : 0);
    Elements done;
    do {
      Elements piece = op.length - done;
      const auto first = static_cast<std::uint32_t>(bound.operands.size());
      for (Operand operand : operands) {
        operand.offset += done;
        const auto owner = static_cast<std::size_t>(owner_of(operand));
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
          !operands.empty() &&
          (operands.front().place == Place::board || operands.front().place == Place::peer_output);
      bound.ops.back().streams = streams(program, op);
      done += piece;
    } while (done < op.length);
  }

  /// At the end of a call all peers that share memory are woken anyway: notices that nothing is
  /// awaited after are not needed.
  void drop_last_notices(BoundProgram& bound) const {
    for (std::size_t i = bound.ops.size(); i-- > 0 && !awaits(bound, bound.ops[i]);) {
      const BoundOp& op = bound.ops[i];
      if (op.code != OpCode::notify || !hosts_.together(Rank{self_}, Rank{op.peer})) continue;
      bound.ops.erase(bound.ops.begin() + static_cast<std::ptrdiff_t>(i));
      for (std::uint32_t& end : bound.phase_end)
        if (end > i) --end;
    }
  }

  /// Of a program in packets.
  static bool awaits(const BoundProgram& bound, const BoundOp& op) {
    if (op.code != OpCode::gather) return op.code != OpCode::notify;
    const auto sources =
        std::span{bound.operands}.subspan(op.first_operand + op.destination_count, op.source_count);
    return std::ranges::any_of(sources, &BoundOperand::on_board);
  }

  /// Whether a result goes past the cache, where it would push out what is still needed: not if it
  /// is about to be read there, by peers or to be sent.
  bool streams(const Program& program, const Op& op) const {
    if (!long_output_ || op.code != OpCode::gather) return false;
    const Operand& result = program.destinations(op).front();
    if (result.place == Place::peer_output) return true;
    if (reaches_outputs(form_) || result.place != Place::output) return false;
    return std::ranges::none_of(program.ops, [&](const Op& other) {
      if (other.code != OpCode::push) return false;
      const Operand& sent = program.sources(other).front();
      return sent.place == Place::output && sent.offset < result.offset + op.length &&
             result.offset < sent.offset + other.length;
    });
  }

  int owner_of(const Operand& operand) const {
    return is_buffer_of_peer(operand.place) ? operand.owner.value() : self_;
  }

  BoundOp bind(const Op& op, std::uint32_t index, std::uint32_t first_operand,
               Elements length) const {
    const bool divide = op.completes && call_.op == ReduceOp::average;
    return {.code = op.code,
            .destination_count = op.destination_count,
            .reaches_peers = false,
            .is_for_peers = false,
            .streams = false,
            .source_count = op.source_count,
            .first_operand = first_operand,
            .divisor = divide ? static_cast<std::uint32_t>(ranks_) : 1,
            .peer = op.peer.value(),
            .source_op = index,
            .count = length.value()};
  }

  BoundOperand bind(const Operand& operand) const {
    const Bytes element = call_.element();
    const bool on_board = operand.place == Place::board, at_peer = is_buffer_of_peer(operand.place);
    const int owner = on_board || at_peer ? operand.owner.value() : self_;
    const Bytes on_its_board =
        layout_.region(slots_) * operand.region + board_bytes(operand.offset, form_, element);
    const Bytes offset = on_board ? on_its_board : bytes_of(operand.offset, element);
    return {.place = operand.place,
            .base = on_board  ? BoundOperand::segment_of(owner)
                    : at_peer ? 0
                              : static_cast<std::uint32_t>(operand.place),
            .owner = owner,
            .offset = offset.value()};
  }

  const Call& call_;
  const Form form_;
  const SlotKind slots_;
  const bool long_output_;
  const Hosts& hosts_;
  const int ranks_, self_;
  const SegmentLayout& layout_;
};

Shape with_length(const Call& call, Elements length) {
  Shape shape = call.shape;
  shape.count = std::min(shape.count, length);
  for (Elements& count : shape.counts) count = std::min(count, length);
  return shape;
}

/// The length of a rank's part of the buffers, or of the whole buffer: what blocks are cut from.
Elements part_length(const Call& call) {
  Elements longest = has_counts(call.collective) ? Elements{0} : call.shape.count;
  for (const Elements count : call.shape.counts) longest = std::max(longest, count);
  return longest;
}

/// The largest block, in elements, that is at most `limit` and whose boards fit a region.
Elements fitting_block(const Choice& choice, const Hosts& hosts, const Call& call, Elements limit,
                       Bytes region) {
  Elements block = limit;
  while (block > Elements{1} &&
         board_bytes(largest_board(*choice.algorithm, choice.form, hosts, with_length(call, block)),
                     choice.form, call.element()) > region)
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
Elements block_of(const Call& call, const Choice& choice, const Hosts& hosts, Bytes block_bytes,
                  const SegmentLayout& layout) {
  const int ranks = hosts.ranks();
  const Elements length = part_length(call);
  if (in_packets(choice.form) || ranks == 1) return length;
  if (reads_buffers(choice.form) && choice.algorithm->sends == Sends::inputs) return length;
  const bool has_parts =
      call.contract(ranks).input_blocks(0) || call.contract(ranks).output_blocks(0);
  const std::uint64_t parts = has_parts ? static_cast<std::uint64_t>(ranks) : 1;
  const Elements limit{
      std::max<std::uint64_t>(block_bytes.value() / call.element().value() / parts, 1)};
  const Elements fitting =
      fitting_block(choice, hosts, call, std::min(length, limit), layout.region(SlotKind::board));
  return length <= fitting ? length : equal_blocks(length, fitting);
}

void accumulate(const void* state, void* accumulator, const void* next, std::size_t count) {
  static_cast<const UserOperation*>(state)->accumulate(accumulator, next, count);
}

/// The largest board that any rank needs, in one block.
Bytes board_bytes(const Algorithm& algorithm, Form form, const Hosts& hosts, const Call& call) {
  return board_bytes(largest_board(algorithm, form, hosts, call.shape), form, call.element());
}

/// Streams of blocks have boards of full length.
SlotKind slots_for(const Call& call, const Choice& choice, const Hosts& hosts, Elements block) {
  const bool packets = in_packets(choice.form), stream = block < part_length(call);
  constexpr Bytes most = SegmentLayout::fixed_region(SlotKind::small_board);
  if (stream || (!packets && bytes_of(block, call.element()) > most)) return SlotKind::board;
  return SegmentLayout::kind_for(board_bytes(*choice.algorithm, choice.form, hosts, call), packets);
}

/// What a program has to do with peers on other hosts.
void note_remote(const Program& program, const Hosts& hosts, Plan& plan) {
  const auto note = [](std::vector<int>& peers, int peer) {
    if (std::ranges::find(peers, peer) == peers.end()) peers.push_back(peer);
  };
  if (hosts.single()) return;
  for (const Op& op : program.ops)
    if (op.code != OpCode::gather && op.code != OpCode::wait &&
        !hosts.together(program.self, op.peer))
      note(plan.pushed_to, op.peer.value());
  for (const int writer : writers_to(program))
    if (!hosts.together(program.self, Rank{writer})) note(plan.remote_writers, writer);
}

/// The lengths of the buffers of all ranks.
Bytes buffers_of_all(const Call& call, int ranks) {
  Elements all;
  for (int rank = 0; rank < ranks; ++rank) {
    const BufferLengths lengths = call.contract(ranks).lengths(rank);
    all += lengths.input + lengths.output;
  }
  return bytes_of(all, call.element());
}

CallManner manner_of(const Plan& plan) {
  const auto index = plan.algorithm - algorithms(plan.call.collective).data();
  return {.algorithm = static_cast<std::uint8_t>(index),
          .form = static_cast<std::uint8_t>(plan.form),
          .block = plan.block_count};
}

}  // namespace

std::string Choice::manner() const {
  if (times_shorter == 1) return std::string{name_of(form)};
  return fmt::format("{}, in blocks of 1/{} of the usual length", name_of(form), times_shorter);
}

std::vector<Shape> block_shapes(const Call& call, Elements length) {
  const std::uint64_t total = part_length(call).value(),
                      step = std::max<std::uint64_t>(length.value(), 1);
  std::vector<Shape> shapes;
  Call rest = call;
  for (std::uint64_t done = 0; done == 0 || done < total; done += step) {
    shapes.push_back(with_length(rest, Elements{step}));
    const auto shorten = [&](Elements& count) { count -= std::min(count, Elements{step}); };
    shorten(rest.shape.count);
    std::ranges::for_each(rest.shape.counts, shorten);
  }
  return shapes;
}

bool runs_in(const Algorithm& algorithm, Form form, const Hosts& hosts) {
  switch (form) {
    case Form::flags:
      return true;
    case Form::packets:
      return !has_counts(algorithm.collective);
    case Form::shared_packets:
      return hosts.single() && hosts.ranks() > 2 && !has_counts(algorithm.collective);
    case Form::direct:
      return hosts.single() && algorithm.sends != Sends::sums;
    case Form::open:
      return hosts.single() && algorithm.sends >= Sends::outputs;
    case Form::written:
      return hosts.single() && algorithm.sends == Sends::results;
  }
  return false;
}

bool fits_packets(const Algorithm& algorithm, Form form, const Hosts& hosts, const Call& call) {
  // A board holds at least what a rank sends once; most calls are decided without any schedule.
  constexpr Bytes region = SegmentLayout::fixed_region(SlotKind::packets);
  if (!runs_in(algorithm, form, hosts) || bytes_of(call.shape.count, call.element()) > region)
    return false;
  return board_bytes(algorithm, form, hosts, call) <= region;
}

Plan make_plan(const Call& call, const Choice& choice, const Hosts& hosts, Rank self,
               Bytes block_bytes, Bytes cached_buffers, const SegmentLayout& layout) {
  const int ranks = hosts.ranks();
  if (in_packets(choice.form) && !fits_packets(*choice.algorithm, choice.form, hosts, call))
    throw InvalidArgument(
        fmt::format("{} does not fit the packets of {}", to_string(call), choice.algorithm->name));
  Plan plan{.call = call, .algorithm = choice.algorithm, .form = choice.form};
  plan.element = call.element();
  plan.packet_elements = elements_per_packet(plan.element);
  plan.guarantees = choice.algorithm->guarantees;
  if (call.user) {
    plan.reduce = kernels::user_kernel();
    plan.user = {&accumulate, call.user.get(), call.element().value()};
  } else {
    plan.reduce =
        kernels::reduce_kernel(call.type, reduces(call.collective) ? call.op : ReduceOp::sum);
  }
  const BufferLengths lengths = call.contract(ranks).lengths(self.value());
  plan.input_bytes = bytes_of(lengths.input, plan.element);
  plan.output_bytes = bytes_of(lengths.output, plan.element);
  plan.block_count = block_of(call, choice, hosts, block_bytes / choice.times_shorter, layout);
  plan.slots = slots_for(call, choice, hosts, plan.block_count);
  plan.mark = mark_of(call, manner_of(plan));
  plan.digest = plan.mark.digest();

  const bool long_output =
      buffers_of_all(call, ranks) >= cached_buffers * static_cast<std::uint64_t>(ranks);
  const Binder binder{call, choice.form, plan.slots, hosts, self, layout, long_output};
  const auto shapes = block_shapes(call, plan.block_count);
  plan.blocks = shapes.size();
  for (std::size_t b = 0; b < shapes.size(); ++b) {
    if (b == 0 || shapes[b] != shapes[b - 1]) {
      Program program = lower_block(*choice.algorithm, choice.form, hosts, self, shapes[b]);
      note_remote(program, hosts, plan);
      plan.last_reading_phase = std::max(plan.last_reading_phase,
                                         static_cast<std::uint64_t>(last_reading_phase(program)));
      plan.scratch = std::max(plan.scratch, bytes_of(program.extents.scratch, plan.element));
      plan.programs.push_back(binder.bind(std::move(program), shapes[b]));
    }
    plan.program_of.push_back(static_cast<std::uint32_t>(plan.programs.size() - 1));
  }
  if (plan.programs.size() == 1) plan.program_of.clear();
  plan.phases = plan.programs.front().phase_end.size();
  for (const BoundProgram& program : plan.programs)
    for (const BoundOp& op : program.ops)
      plan.most_sources = std::max(plan.most_sources, op.source_count);
  return plan;
}

}  // namespace capstan
