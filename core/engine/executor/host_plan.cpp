// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/host_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

#include "core/engine/control/cache_lines.hpp"
#include "core/engine/executor/accumulating.hpp"
#include "core/platform/net/own_process.hpp"

namespace capstan {
namespace {

/// Whether the protocol asks for streaming stores to this place.
bool streams_to(const Plan& plan, const Operand& destination) {
  return plan.protocol == Protocol::streamed && destination.place == Place::staging;
}

/// Whether a result is written by streaming stores, which leave the cache to data that are still
/// needed. Not if peers read the result soon, or if it is sent, unless the protocol asks for it.
bool streams(const Plan& plan, const Program& program, const Op& op) {
  if (op.code != OpCode::gather) return false;
  const Operand& result = program.destinations(op).front();
  if (streams_to(plan, result)) return true;
  if (!plan.exceeds_cache) return false;
  if (result.place == Place::peer_output || writes_peers_too(program, op)) return true;
  if (reaches_outputs(plan.protocol) || result.place != Place::output) return false;
  return std::ranges::none_of(program.ops, [&](const Op& other) {
    if (other.code != OpCode::push) return false;
    const Operand& sent = program.sources(other).front();
    return sent.place == Place::output && sent.offset < result.offset + op.length &&
           result.offset < sent.offset + other.length;
  });
}

bool copy_streams(const Plan& plan, const Program& program, const Op& op) {
  return op.code == OpCode::gather && program.destinations(op).size() == 2 &&
         streams_to(plan, program.destinations(op)[1]);
}

bool reads_buffer(const Program& program, const Op& op) {
  return op.code == OpCode::gather &&
         std::ranges::any_of(program.sources(op), [](const Operand& source) {
           return source.place != Place::scratch && source.place != Place::staging;
         });
}

bool fits_packet(const Plan& plan, const BoundOp& op) {
  return in_packets(plan.protocol) && op.code == OpCode::gather && op.is_copy() &&
         op.count <= plan.packet_elements;
}

/// The operand of the operation that lies in staging buffers of the peer, if there is one.
std::optional<std::uint32_t> staged_by(Rank peer, const BoundProgram& program, const BoundOp& op) {
  if (op.code != OpCode::gather || op.reaches_peers) return std::nullopt;
  const std::uint32_t first = op.first_operand + op.destination_count;
  for (std::uint32_t i = first; i < first + op.source_count; ++i)
    if (program.operands[i].in_staging() && program.operands[i].owner == peer) return i;
  return std::nullopt;
}

/// Lets a wait prefetch the begin of what the peer has staged for the next operation that reads it,
/// at most `most` lines. Of longer data a prefetch gained nothing.
// measured: docs/lab-notebook.md#lines-behind-a-signal
void add_prefetch(HostOp& wait, std::span<const BoundOp> later, const BoundProgram& program,
                  Bytes element, std::uint64_t most) {
  constexpr std::uint64_t longest = 8 << 10;
  for (const BoundOp& op : later) {
    if (op.code == OpCode::wait && op.peer == wait.peer) return;
    const auto operand = staged_by(wait.peer, program, op);
    if (!operand) continue;
    const std::uint64_t bytes = op.count * element.value();
    if (bytes > longest) return;
    const std::uint64_t lines = (bytes + cache_line_bytes - 1) / cache_line_bytes;
    wait.prefetched_lines = static_cast<std::uint32_t>(std::min(lines, most));
    wait.prefetched_operand = *operand;
    return;
  }
}

/// Waits for many peers prefetch little from each, or nothing, as all of it has to stay in the
/// first cache.
void add_prefetches(HostProgram& program, const BoundProgram& bound, Bytes element) {
  constexpr std::uint64_t most_lines = 16, lines_of_all = 128;
  const auto is_wait = [](const BoundOp& op) { return op.code == OpCode::wait; };
  const std::span all{bound.ops};
  const auto waits = static_cast<std::uint64_t>(std::ranges::count_if(all, is_wait));
  if (waits > lines_of_all) return;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (is_wait(all[i]))
      add_prefetch(program.ops[i], all.subspan(i + 1), bound, element,
                   std::min(most_lines, lines_of_all / waits));
}

HostProgram host_program_of(const Plan& plan, const BoundProgram& bound) {
  HostProgram program{.ops = {},
                      .operands = bound.operands,
                      .phase_end = bound.phase_end,
                      .readers = bound.readers,
                      .source = &bound.source};
  program.ops.reserve(bound.ops.size());
  for (const BoundOp& op : bound.ops) {
    const Op& source = bound.source.ops[op.source_op];
    program.ops.push_back(
        {op, streams(plan, bound.source, source), copy_streams(plan, bound.source, source),
         plan.exceeds_cache && reads_buffer(bound.source, source), fits_packet(plan, op)});
  }
  if (!in_packets(plan.protocol)) add_prefetches(program, bound, plan.element);
  return program;
}

/// Runs a user's operation, whose name is added to what it throws. A child that the operation forks
/// does not continue the call.
void accumulate(const void* state, void* accumulator, const void* next, std::size_t count) {
  const auto& operation = *static_cast<const UserOperation*>(state);
  const unsigned generation = fork_generation.load(std::memory_order_relaxed);
  const auto fail = [&](const char* text) {
    throw std::runtime_error(fmt::format("the operation '{}' threw: {}", operation.name, text));
  };
  try {
    const Accumulating calls_nothing;
    operation.accumulate(accumulator, next, count);
  } catch (const std::exception& error) {
    fail(error.what());
  } catch (...) {
    fail("something that is no std::exception");
  }
  if (generation != fork_generation.load(std::memory_order_relaxed)) [[unlikely]]
    fail("it has forked, and a child cannot continue its parent's call");
}

}  // namespace

HostPlan::HostPlan(Plan plan) : Plan(std::move(plan)) {
  if (call.memory == MemoryKind::device) return;
  for (const BoundProgram& program : programs)
    host_programs.push_back(host_program_of(*this, program));
  if (call.user) {
    reduce = kernels::user_kernel();
    user = {&accumulate, call.user.get(), element.value()};
  } else {
    reduce = kernels::reduce_kernel(call.type, reduces(call.collective) ? call.op : ReduceOp::sum);
  }
}

}  // namespace capstan
