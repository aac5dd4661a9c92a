// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capstan/quantity.hpp"
#include "core/engine/control/wait.hpp"
#include "core/schedule/lowering/call.hpp"

namespace capstan {

struct Plan;

/// Runs plans, one after the other, for one rank of a communicator: HostExecutor on the processor,
/// DeviceExecutor by kernels of a device. The engine runs the tasks of its queue by this interface
/// alone. A call on the host that finds the queue empty is no task: HostExecutor::run() runs it,
/// and has more that makes such calls short.
///
/// An executor promises:
///
/// - Never to block. start() and advance() go as far as what has arrived allows, and return.
/// - To run the operations of a phase in their order, with the meaning that OpCode gives them, and
///   the phases of a stream as Plan::rounds() says. It may overlap operations only where nobody can
///   tell the difference.
/// - To keep the protocol of the control block (core/engine/control/segment.hpp) as far as it tells
///   of calls: peers see which this rank has begun and finished, in the same places and the same
///   memory order. All ranks of a communicator have executors of one kind, whose signals, packets
///   and slots are their own, by the flow control of core/schedule/lowering/slots.hpp.
/// - That when a call is finished the output is complete for whoever reads it next, the input may
///   change, nothing is sent from either any more, and the call has been published as finished.
/// - To report faithfully: progress() changes whenever anything has been done, and report() names
///   the peers that it waits for. Hang detection depends on both.
///
/// A plan holds nothing of the processor or device: HostPlan and DevicePlan add what an executor
/// needs. Plans, and the buffers of the call that runs, stay valid until that call is finished.
///
/// Used by one thread at a time.
class Executor {
 public:
  /// The state of the call that runs, for hang detection and error texts.
  struct Report {
    std::string position;       ///< what it waits for
    std::vector<Rank> awaited;  ///< the peers that it waits for, in rising order
    Wait::Kind kind = Wait::Kind::collective;
    /// Blocks, over all calls, that the call needs of each peer: a peer that has finished so many
    /// owes this rank nothing more.
    std::uint64_t needed_blocks = 0;
    std::uint64_t call = 0;             ///< its number
    CallMark mark{};                    ///< of the call
    std::uint32_t step = 0, steps = 0;  ///< step i of n, from 1
  };

  virtual ~Executor() = default;

  /// Begins a call. The one before it must be finished. False, and nothing has changed, where what
  /// runs it has not come to it yet: a kernel is behind other work in its stream.
  virtual bool start(const Plan& plan, const void* input, void* output) = 0;
  /// Runs on; true when the call is finished. Throws Mismatch when a peer turns out to be in a
  /// different call, Aborted when a peer's cancellation has destroyed the result.
  virtual bool advance() = 0;

  /// Keeps peers from writing to the buffers of the call, until redirect(). False, and nothing has
  /// changed, if that is not possible now.
  virtual bool hold_buffers() = 0;
  /// Continues with other buffers, which hold the same data as the former ones; after
  /// hold_buffers(). When it returns, nobody uses the former ones any more.
  virtual void redirect(const void* input, void* output) = 0;
  /// Gives up the buffers of a call that has failed, if there is one. When it returns, nobody uses
  /// them any more but kernels, which end soon. Its peers have been told of the failure; nothing is
  /// started afterwards.
  virtual void withdraw_buffers() = 0;
  /// Whether peers have to be there though there may be no call.
  virtual bool needs_peers() const { return false; }

  /// Changes whenever something has been done.
  virtual std::uint64_t progress() const = 0;
  virtual Report report() const = 0;
  /// Compares all calls so far with those of every peer: for waits that last. (advance() compares
  /// with the peers that it hears from.) Throws Mismatch, and SystemError for a device that is
  /// lost.
  virtual void compare_calls() = 0;
};

}  // namespace capstan
