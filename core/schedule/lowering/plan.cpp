// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "capstan/error.hpp"
#include "core/schedule/lowering/bind.hpp"
#include "core/schedule/lowering/exports.hpp"
#include "core/schedule/lowering/largest_staging.hpp"

namespace capstan {
namespace {

/// A program for a block of this shape, as seen by one rank.
Program lower_block(const Algorithm& algorithm, Protocol protocol, const Hosts& hosts, Rank self,
                    const Shape& shape) {
  std::map<Rank, Schedule> schedules;
  const auto schedule_of = [&](Rank rank) -> const Schedule& {
    const auto found = schedules.find(rank);
    if (found != schedules.end()) return found->second;
    return schedules.emplace(rank, algorithm.schedule(Group::world(hosts, rank), shape))
        .first->second;
  };
  return lower(schedule_of, self, protocol, hosts);
}

Shape with_length(const Call& call, Elements length) {
  Shape shape = call.shape;
  shape.count = std::min(shape.count, length);
  for (Elements& count : shape.counts) count = std::min(count, length);
  return shape;
}

/// The length that is cut into blocks: that of a rank's part of the buffers, or of the whole
/// buffer.
Elements part_length(const Call& call) {
  Elements longest = has_counts(call.collective) ? Elements{0} : call.shape.count;
  for (const Elements count : call.shape.counts) longest = std::max(longest, count);
  return longest;
}

/// The largest staging buffer that any rank needs, in one block.
Bytes staging_bytes(const Algorithm& algorithm, Protocol protocol, const Hosts& hosts,
                    const Call& call, const Shape& block) {
  return staging_bytes(largest_staging(algorithm, protocol, hosts, block), protocol,
                       call.element());
}

/// The largest block, in elements, that is at most `limit` and whose staging buffers fit a region.
Elements fitting_block(const Choice& choice, const Hosts& hosts, const Call& call, Elements limit,
                       Bytes region) {
  Elements block = limit;
  while (block > Elements{1} && staging_bytes(*choice.algorithm, choice.protocol, hosts, call,
                                              with_length(call, block)) > region)
    block = block / 2;
  return block;
}

/// Cuts `count` into equal blocks of at most `largest` elements; block starts stay on cache lines.
Elements equal_blocks(Elements count, Elements largest) {
  const std::uint64_t blocks = (count.value() + largest.value() - 1) / largest.value();
  const std::uint64_t even = (count.value() + blocks - 1) / blocks;
  const std::uint64_t unit = staging_unit.value();
  return Elements{std::min(largest.value(), (even + unit - 1) / unit * unit)};
}

/// Whether each rank has a part of the input or of the output.
bool has_parts(const Call& call, int ranks) {
  const Contract contract = call.contract(ranks);
  return contract.input_blocks(0) || contract.output_blocks(0);
}

/// Whether a call in packets may be cut into blocks. Not where ranks have parts of the buffers: a
/// sender writes the parts of a block one by one, each from the beginning of a packet, while a
/// reader takes adjacent parts as one run.
bool may_cut_packets(const Call& call, int ranks, const SlotPool& pool) {
  return pool.cuts_packets && !has_parts(call, ranks);
}

/// A call of any size that fits goes in one block; a longer one is cut.
Elements block_of(const Call& call, const Choice& choice, const Hosts& hosts, Bytes block_bytes,
                  const SlotLayout& layout) {
  const int ranks = hosts.ranks();
  const Elements length = part_length(call);
  const bool packets = in_packets(choice.protocol);
  if ((packets && !may_cut_packets(call, ranks, layout.pool())) || ranks == 1) return length;
  if (reads_buffers(choice.protocol) && choice.algorithm->traffic == Traffic::inputs) return length;
  const std::uint64_t parts = has_parts(call, ranks) ? static_cast<std::uint64_t>(ranks) : 1;
  const Elements limit{
      std::max<std::uint64_t>(block_bytes.value() / call.element().value() / parts, 1)};
  const Elements fitting =
      fitting_block(choice, hosts, call, std::min(length, limit),
                    layout.region(packets ? SlotKind::packets : SlotKind::staging));
  return length <= fitting ? length : equal_blocks(length, fitting);
}

/// The longest block of a call. Calls that read and write buffers of peers stage nothing, and need
/// no scratch if each rank has an output for its sums. Far beyond the caches their blocks gain
/// nothing by being short, and a rank with fewer blocks waits less often.
Bytes longest_block(const Call& call, const Choice& choice, Bytes usual, Bytes buffers,
                    Bytes cached) {
  // measured: docs/lab-notebook.md#chunks
  constexpr std::uint64_t far_beyond = 4, times_longer = 16;
  const bool sums_in_scratch = reduces(call.collective) && has_root(call.collective);
  if (reaches_outputs(choice.protocol) && !sums_in_scratch && buffers >= cached * far_beyond)
    return usual * times_longer;
  return usual / choice.times_shorter;
}

/// The packets with the longest part of the data.
Bytes longest_packets(const Call& call) {
  return Bytes{packets_for(part_length(call), call.element()) * packet_bytes};
}

/// The kind of slots for a call. Where packets are cut, and for long blocks, no schedule is needed.
SlotKind slots_for(const Call& call, const Choice& choice, const Hosts& hosts, Elements block,
                   const SlotPool& pool) {
  const bool packets = in_packets(choice.protocol), stream = block < part_length(call);
  if (packets && pool.cuts_packets) return SlotKind::packets;
  if (!packets && (stream || !pool.fits(bytes_of(block, call.element()), SlotKind::small_staging)))
    return SlotKind::staging;
  return pool.kind_for(staging_bytes(*choice.algorithm, choice.protocol, hosts, call, call.shape),
                       packets, stream, longest_packets(call));
}

/// Whether blocks have places in slots of this kind. Not among many ranks, whose slots would fill
/// the last cache, nor between hosts, where nobody reads what a rank has in its own cache.
bool have_places(SlotKind slots, const Hosts& hosts) {
  constexpr int most_ranks = 8;
  return slots == SlotKind::staging && hosts.single() && hosts.ranks() > 1 &&
         hosts.ranks() <= most_ranks;
}

/// The places for blocks of which the longest stages so much.
SlotPlaces places_for(Bytes staged, const SlotLayout& layout) {
  constexpr std::uint64_t page = 4096;
  if (staged == Bytes{0}) return {};
  const std::uint64_t distance = (staged.value() + page - 1) / page * page;
  const std::uint64_t fitting = layout.room_for_places().value() / distance;
  if (fitting <= 1) return {};
  return {.count = fitting, .distance = distance};
}

/// Adds the peers on other hosts that a program sends to, or whose staging buffers it reads.
void note_remote(const Program& program, const Hosts& hosts, Plan& plan) {
  const auto note = [](std::vector<Rank>& peers, Rank peer) {
    if (std::ranges::find(peers, peer) == peers.end()) peers.push_back(peer);
  };
  if (hosts.single()) return;
  for (const Op& op : program.ops)
    if (op.code != OpCode::gather && op.code != OpCode::wait &&
        !hosts.together(program.self, op.peer))
      note(plan.pushed_to, op.peer);
  for (const Rank writer : writers_to(program))
    if (!hosts.together(program.self, writer)) note(plan.remote_writers, writer);
}

/// The lengths of the buffers of all ranks.
Bytes buffers_of_all(const Call& call, int ranks) {
  Elements all;
  for (const Rank rank : all_ranks(ranks)) {
    const BufferLengths lengths = call.contract(ranks).lengths(rank.value());
    all += lengths.input + lengths.output;
  }
  return bytes_of(all, call.element());
}

CallManner manner_of(const Plan& plan) {
  const Algorithm& algorithm = *plan.algorithm;
  const auto index = algorithm.source ? 0 : &algorithm - algorithms(plan.call.collective).data();
  return {.algorithm = static_cast<std::uint8_t>(index),
          .digest = algorithm.digest,
          .protocol = static_cast<std::uint8_t>(plan.protocol),
          .block = plan.block_count};
}

/// The blocks of a call and the slots that stage them: the same on all ranks.
struct Division {
  Elements block{};
  SlotKind slots = SlotKind::staging;
  SlotPlaces places{};
  bool exceeds_cache = false;  ///< the buffers of all ranks exceed it together
  Bytes long_read{};           ///< see PlanLimits
};

/// Makes the program for a block. Called once for several blocks of one shape that follow one
/// another.
using ProgramOf = std::function<Program(const Shape&)>;

/// Gives all blocks as many phases as the block with the most has. A function may divide a long
/// block into more phases than a short one, which does nothing in those that it lacks.
void give_equal_phases(Plan& plan) {
  for (const BoundProgram& program : plan.programs)
    plan.phases = std::max<std::uint64_t>(plan.phases, program.phase_end.size());
  for (BoundProgram& program : plan.programs)
    program.phase_end.resize(plan.phases, program.phase_end.back());
}

/// Adds the programs of `self` for all blocks.
void add_programs(Plan& plan, const Binding& binding, const ProgramOf& program_of) {
  const auto shapes = block_shapes(plan.call, plan.block_count);
  plan.blocks = shapes.size();
  for (std::size_t b = 0; b < shapes.size(); ++b) {
    if (b == 0 || shapes[b] != shapes[b - 1]) {
      Program program = program_of(shapes[b]);
      note_remote(program, binding.hosts, plan);
      plan.last_reading_phase = std::max(plan.last_reading_phase,
                                         static_cast<std::uint64_t>(last_reading_phase(program)));
      plan.scratch = std::max(plan.scratch, bytes_of(program.extents.scratch, plan.element));
      plan.programs.push_back(bind(std::move(program), shapes[b], binding));
    }
    plan.program_of.push_back(static_cast<std::uint32_t>(plan.programs.size() - 1));
  }
  if (plan.programs.size() == 1) plan.program_of.clear();
  give_equal_phases(plan);
  for (const BoundProgram& program : plan.programs)
    for (const BoundOp& op : program.ops)
      plan.most_sources = std::max(plan.most_sources, op.source_count);
}

Plan assemble(const Call& call, const Choice& choice, const Hosts& hosts, Rank self,
              const Division& division, const SlotLayout& layout, const ProgramOf& program_of) {
  Plan plan{.call = call, .algorithm = choice.algorithm, .protocol = choice.protocol};
  plan.element = call.element();
  plan.packet_elements = elements_per_packet(plan.element);
  plan.guarantees = choice.algorithm->guarantees;
  plan.guarantees.host_ordered_sum =
      plan.guarantees.host_ordered_sum && choice.algorithm->suits(hosts);
  plan.block_count = division.block;
  plan.slots = division.slots;
  plan.places = division.places;
  plan.exceeds_cache = division.exceeds_cache;
  const BufferLengths lengths = call.contract(hosts.ranks()).lengths(self.value());
  plan.input_bytes = bytes_of(lengths.input, plan.element);
  plan.output_bytes = bytes_of(lengths.output, plan.element);
  plan.mark = mark_of(call, manner_of(plan));
  plan.digest = plan.mark.digest();
  add_programs(plan,
               {.call = call,
                .protocol = choice.protocol,
                .slots = plan.slots,
                .hosts = hosts,
                .self = self,
                .layout = layout,
                .long_read = division.long_read},
               program_of);
  return plan;
}

/// The programs for a block of this shape, of all ranks.
ByRank<Program> lower_block_for_all(const Algorithm& algorithm, Protocol protocol,
                                    const Hosts& hosts, const Shape& shape) {
  ByRank<Schedule> schedules;
  for (const Rank rank : all_ranks(hosts.ranks()))
    schedules.push_back(algorithm.schedule(Group::world(hosts, rank), shape));
  return lower_all([&](Rank rank) -> const Schedule& { return schedules[rank]; }, hosts, protocol);
}

}  // namespace

std::string Choice::manner() const {
  if (times_shorter == 1) return std::string{name_of(protocol)};
  return fmt::format("{}, in blocks of 1/{} of the usual length", name_of(protocol), times_shorter);
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

bool runs_in(const Algorithm& algorithm, Protocol protocol, const Hosts& hosts) {
  switch (protocol) {
    case Protocol::staged:
      return true;
    case Protocol::inline_packets:
      return !has_counts(algorithm.collective);
    case Protocol::shared_inline_packets:
      return hosts.single() && hosts.ranks() > 2 && !has_counts(algorithm.collective);
    case Protocol::streamed:
      return hosts.single();
    case Protocol::read_input:
      return hosts.single() && algorithm.traffic != Traffic::partials;
    case Protocol::read_buffers:
      return hosts.single() && algorithm.traffic >= Traffic::outputs;
    case Protocol::write_output:
      return hosts.single() && algorithm.traffic == Traffic::results;
  }
  return false;
}

bool fits_packets(const Algorithm& algorithm, Protocol protocol, const Hosts& hosts,
                  const Call& call, const SlotPool& pool) {
  if (!runs_in(algorithm, protocol, hosts)) return false;
  const Elements block =
      may_cut_packets(call, hosts.ranks(), pool) ? staging_unit : part_length(call);
  const Shape shape = with_length(call, block);
  // A staging buffer holds at least the data that a rank sends once. That decides most calls
  // without any schedule.
  const Bytes region = pool.region.packets;
  if (bytes_of(shape.count, call.element()) > region) return false;
  return staging_bytes(largest_staging(algorithm, protocol, hosts, shape), protocol,
                       call.element()) <= region;
}

Elements block_length(const Call& call, const Choice& choice, const Hosts& hosts,
                      const PlanLimits& limits, const SlotLayout& layout) {
  const int ranks = hosts.ranks();
  const Bytes cached = limits.cached_buffers * static_cast<std::uint64_t>(ranks);
  const Bytes longest =
      longest_block(call, choice, limits.block, buffers_of_all(call, ranks), cached);
  return block_of(call, choice, hosts, longest, layout);
}

Plan make_plan(const Call& call, const Choice& choice, const Hosts& hosts, Rank self,
               const PlanLimits& limits, const SlotLayout& layout) {
  const int ranks = hosts.ranks();
  if (in_packets(choice.protocol) && ranks > 1 &&
      !fits_packets(*choice.algorithm, choice.protocol, hosts, call, layout.pool()))
    throw InvalidArgument(
        fmt::format("{} does not fit the packets of {}", to_string(call), choice.algorithm->name));
  const Bytes cached = limits.cached_buffers * static_cast<std::uint64_t>(ranks);
  Division division{.block = block_length(call, choice, hosts, limits, layout),
                    .exceeds_cache = buffers_of_all(call, ranks) > cached,
                    .long_read = limits.long_read};
  division.slots = slots_for(call, choice, hosts, division.block, layout.pool());
  if (have_places(division.slots, hosts))
    division.places = places_for(staging_bytes(*choice.algorithm, choice.protocol, hosts, call,
                                               with_length(call, division.block)),
                                 layout);
  return assemble(call, choice, hosts, self, division, layout, [&](const Shape& shape) {
    return lower_block(*choice.algorithm, choice.protocol, hosts, self, shape);
  });
}

ByRank<Plan> make_plans(const Call& call, const Choice& choice, const Hosts& hosts, Elements block,
                        const SlotLayout& layout, Bytes long_read) {
  const auto shapes = block_shapes(call, block);
  std::vector<ByRank<Program>> programs;  // of each shape
  Elements staging;
  for (std::size_t b = 0; b < shapes.size(); ++b) {
    if (b > 0 && shapes[b] == shapes[b - 1]) continue;
    programs.push_back(lower_block_for_all(*choice.algorithm, choice.protocol, hosts, shapes[b]));
    for (const Program& program : programs.back())
      staging = std::max(staging, std::ranges::max(program.staging));
  }
  const Bytes staged = staging_bytes(staging, choice.protocol, call.element());
  Division division{.block = block,
                    .slots = layout.pool().kind_for(staged, in_packets(choice.protocol),
                                                    shapes.size() > 1, longest_packets(call)),
                    .long_read = long_read};
  if (have_places(division.slots, hosts)) division.places = places_for(staged, layout);
  ByRank<Plan> plans;
  for (const Rank rank : all_ranks(hosts.ranks())) {
    auto of_shape = programs.begin();
    plans.push_back(assemble(call, choice, hosts, rank, division, layout,
                             [&](const Shape&) { return (*of_shape++)[rank]; }));
  }
  return plans;
}

}  // namespace capstan
