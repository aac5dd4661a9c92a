#include "core/engine/executor/host_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/net/own_process.hpp"

namespace capstan {
namespace {

/// Whether a result is written by streaming stores, which leave the cache to data that are still
/// needed. Not if peers read the result soon, or if it is sent.
bool streams(const Plan& plan, const Program& program, const Op& op) {
  if (!plan.exceeds_cache || op.code != OpCode::gather) return false;
  const Operand& result = program.destinations(op).front();
  if (result.place == Place::peer_output || writes_peers_too(program, op)) return true;
  if (reaches_outputs(plan.protocol) || result.place != Place::output) return false;
  return std::ranges::none_of(program.ops, [&](const Op& other) {
    if (other.code != OpCode::push) return false;
    const Operand& sent = program.sources(other).front();
    return sent.place == Place::output && sent.offset < result.offset + op.length &&
           result.offset < sent.offset + other.length;
  });
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

HostProgram host_program_of(const Plan& plan, const BoundProgram& bound) {
  HostProgram program{.ops = {},
                      .operands = bound.operands,
                      .phase_end = bound.phase_end,
                      .readers = bound.readers,
                      .source = &bound.source};
  program.ops.reserve(bound.ops.size());
  for (const BoundOp& op : bound.ops) {
    const Op& source = bound.source.ops[op.source_op];
    program.ops.push_back({op, streams(plan, bound.source, source),
                           plan.exceeds_cache && reads_buffer(bound.source, source),
                           fits_packet(plan, op)});
  }
  return program;
}

/// What the program throws gets the name of its operation. A child that the operation forks does
/// not go on with the call.
void accumulate(const void* state, void* accumulator, const void* next, std::size_t count) {
  const auto& operation = *static_cast<const UserOperation*>(state);
  const unsigned generation = fork_generation.load(std::memory_order_relaxed);
  const auto fail = [&](const char* text) {
    throw std::runtime_error(fmt::format("the operation '{}' threw: {}", operation.name, text));
  };
  try {
    operation.accumulate(accumulator, next, count);
  } catch (const std::exception& error) {
    fail(error.what());
  } catch (...) {
    fail("something that is no std::exception");
  }
  if (generation != fork_generation.load(std::memory_order_relaxed)) [[unlikely]]
    fail("it has forked, and a child cannot go on with its parent's call");
}

}  // namespace

HostPlan::HostPlan(Plan plan) : Plan(std::move(plan)) {
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
