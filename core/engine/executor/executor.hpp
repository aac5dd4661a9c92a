// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "capstan/quantity.hpp"
#include "core/schedule/lowering/call.hpp"

namespace capstan {

struct Plan;

/// Runs plans, one after the other, for one rank of a communicator. HostExecutor runs them on the
/// processor. The engine uses nothing else of an executor than this interface, so that another one,
/// whose operations run inside a kernel on a device, can take its place.
///
/// An executor promises:
///
/// - Never to block. start() and advance() go as far as what has arrived allows, and return.
/// - To run the operations of a phase in their order, with the meaning that OpCode gives them, and
///   the phases of a stream as Plan::rounds() says. It may overlap operations only where nobody can
///   tell the difference.
/// - To keep the protocol of the control block (core/engine/control/segment.hpp) and the flow
/// control of
///   core/schedule/lowering/slots.hpp: peers, which may run another executor, see its calls,
///   signals, packets and finished blocks in the same places, in the same order, with the same
///   memory order (release on the last store of each). What a device stores has to be visible to
///   the whole host (system scope) before the signal, packet tag or counter that announces it.
/// - That when a call is finished the output is complete for whoever reads it next, the input may
///   change, nothing is sent from either any more, and the call has been published as finished.
/// - To report faithfully: progress() changes whenever anything has been done, and report() names
///   the peers that it waits for. Hang detection depends on both.
///
/// A plan holds nothing of the processor or device: each executor has plans of its own, which add
/// what it needs (see HostPlan), and is given no others. Plans, and the buffers of the call that
/// runs, stay valid until that call is finished.
///
/// Used by one thread at a time.
class Executor {
 public:
  /// The state of the call that runs, for hang detection and error texts.
  struct Report {
    std::string position;       ///< what it waits for
    std::vector<Rank> awaited;  ///< the peers that it waits for, in rising order
    /// Blocks, over all calls, that the call needs of each peer: a peer that has finished so many
    /// owes this rank nothing more.
    std::uint64_t needed_blocks = 0;
    std::uint64_t call = 0;             ///< its number
    CallMark mark{};                    ///< of the call
    std::uint32_t step = 0, steps = 0;  ///< step i of n, from 1
  };

  virtual ~Executor() = default;

  /// Begins a call. The one before it must be finished.
  virtual void start(const Plan& plan, const void* input, void* output) = 0;
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
  /// them any more. Its peers have been told of the failure; nothing is started afterwards.
  virtual void withdraw_buffers() = 0;

  /// Changes whenever something has been done.
  virtual std::uint64_t progress() const = 0;
  virtual Report report() const = 0;
  /// Compares all calls so far with those of every peer: for waits that last. (advance() compares
  /// with the peers that it hears from.) Throws Mismatch.
  virtual void compare_calls() = 0;
};

}  // namespace capstan
