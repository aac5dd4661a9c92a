// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/engine/control/call_log.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/executor/arrival_poll.hpp"
#include "core/engine/executor/combiner.hpp"
#include "core/engine/executor/executor.hpp"
#include "core/engine/executor/exposed_buffers.hpp"
#include "core/engine/executor/host_plan.hpp"
#include "core/engine/executor/packet_lane.hpp"
#include "core/engine/executor/peer_memory.hpp"
#include "core/engine/executor/running_call.hpp"
#include "core/engine/executor/signals.hpp"
#include "core/engine/executor/slot_ring.hpp"
#include "core/engine/executor/step_log.hpp"

namespace capstan {

/// Runs plans on the processor. This class keeps the order of blocks, phases and operations. Its
/// parts, such as PacketLane and PeerMemory, carry out the operations.
///
/// Final, and used by value, so that its functions are called without virtual dispatch.
class HostExecutor final : public Executor {
 public:
  /// `spins`: how often advance() tests for what has not arrived before it gives up.
  HostExecutor(Peers& peers, const SegmentLayout& layout, int spins);
  HostExecutor(const HostExecutor&) = delete;  // parts refer to each other

  /// `plan` is a HostPlan.
  bool start(const Plan& plan, const void* input, void* output) override;
  bool advance() override;
  /// start() and advance() in one: small calls end in it.
  bool run(const HostPlan& plan, const void* input, void* output);

  bool hold_buffers() override { return buffers_.hold(call_); }
  void redirect(const void* input, void* output) override {
    buffers_.redirect(call_, input, output);
  }
  void withdraw_buffers() override { buffers_.withdraw(call_); }

  std::uint64_t progress() const override { return operations_done_ + packets_.packets_done(); }
  Report report() const override;
  void compare_calls() override {
    if (call_.plan) log_.compare_all();
  }

  /// Steps go to this log from now on. Null: no longer.
  void record_steps(StepLog* log) { steps_ = log; }
  void set_spins(int spins) { poll_.set_spins(spins); }
  /// Touches memory that calls of the plan use, so that the first of them is not slower.
  void prepare(const Plan& plan);
  /// The same for memory of peers, after each call of a plan that a trial measures.
  void prepare_trial(const Plan& plan) { slots_.map_pages_of_peers(plan); }
  /// The same as prepare() before any plan is known, for short calls.
  void prepare_first_calls() { slots_.map_pages_of_tiny_slots(); }

 private:
  inline void begin_call(const HostPlan& plan, const void* input, void* output);
  inline void log_call();
  inline void enter_block(std::uint64_t block);
  inline bool run_call();
  inline bool run_block();
  bool run_stream();
  bool run_phase();
  void next_phase();
  inline bool acquire_slot();
  inline bool run_until(std::uint32_t end);
  inline bool run_ops(std::uint32_t end);
  bool run_recorded_ops(std::uint32_t end);
  bool acquire_recorded_slot();
  bool execute_recorded(const HostOp& op);
  inline bool execute(const HostOp& op);
  inline PrefetchedLines prefetched_by(const HostOp& wait) const;
  bool gather(const HostOp& op);
  bool push(const HostOp& op);
  bool flush(Rank peer);
  bool flush_buffers();
  inline void end_call();

  std::vector<Rank> awaited() const;

  Peers& peers_;
  Transport& transport_;
  const SegmentLayout layout_;
  CallLog log_;
  ArrivalPoll poll_;
  SlotRing slots_;
  Signals signals_;
  PacketLane packets_;
  Combiner combiner_;
  PeerMemory peer_memory_;
  ExposedBuffers buffers_;

  RunningCall call_;
  std::uint64_t operations_done_ = 0;
  StepLog* steps_ = nullptr;
  bool slot_awaited_ = false;  ///< only where steps are recorded
};

}  // namespace capstan
