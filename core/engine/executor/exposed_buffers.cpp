// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/exposed_buffers.hpp"

#include <atomic>

namespace capstan {

const std::byte* ExposedBuffers::stable_input(const Plan& plan, const std::byte* input,
                                              const std::byte* output) {
  if (!overwrites_input(plan.call.collective)) return input;
  const std::size_t length = plan.input_bytes.value();
  if (length == 0 || output >= input + length || input >= output + plan.output_bytes.value())
    return input;
  input_snapshot_.assign(input, input + length);
  return input_snapshot_.data();
}

/// Publishes null addresses: a peer that finds no address waits until there is one.
bool ExposedBuffers::hold(const RunningCall& call) {
  if (!call.plan || call.plan->protocol != Protocol::write_output) return true;
  log_.move_buffers(nullptr, nullptr);
  if (peers_.wait_for_users().empty()) return true;
  log_.move_buffers(call.input, call.output);
  peers_.wake_all();
  return false;
}

void ExposedBuffers::redirect(RunningCall& call, const void* input, void* output) {
  if (!is_snapshot(call.input)) call.input = static_cast<const std::byte*>(input);
  call.output = static_cast<std::byte*>(output);
  log_.move_buffers(call.input, call.output);
  // Peers that write to the buffers use the new addresses only: hold() has waited for them.
  if (call.plan->protocol != Protocol::write_output) wait_for_users(call);
  detach_from_transport(call);
  peers_.wake_all();
  if (call.has_block) call.place_buffers();
}

void ExposedBuffers::withdraw(const RunningCall& call) {
  wait_for_users(call);
  detach_from_transport(call);
}

void ExposedBuffers::detach_from_transport(const RunningCall& call) {
  if (call.plan) peers_.detach_sources();
  peers_.transport().announce_sources({}, {});
}

/// Waits for a limited time. A peer that is stopped for longer learns from `abandoned` that the
/// data it has used are no longer valid.
void ExposedBuffers::wait_for_users(const RunningCall& call) {
  if (!call.plan || !reads_buffers(call.plan->protocol)) return;
  for (const Rank peer : peers_.wait_for_users())
    flag_of(peers_.own_segment(), layout_, peer).abandoned.fetch_add(1, std::memory_order_seq_cst);
  // A peer that reads what the caller stores next also sees the count. On Arm no fetch_add does
  // that.
  std::atomic_thread_fence(std::memory_order_release);
}

}  // namespace capstan
