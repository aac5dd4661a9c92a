// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/engine/control/call_log.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/control/segment.hpp"
#include "core/engine/executor/running_call.hpp"

namespace capstan {

/// The buffers of this rank's call that others access during the call. Peers on this host read and
/// write them in place, and the transport sends from them. Before the buffers are replaced, or
/// given back to the caller early, this class waits for both.
///
/// Used by one thread at a time.
class ExposedBuffers {
 public:
  ExposedBuffers(Peers& peers, const SegmentLayout& layout, CallLog& log)
      : peers_(peers), layout_(layout), log_(log) {}

  /// The input that peers may read until the call ends: the caller's, or a snapshot of it where the
  /// output overlaps the input and what this rank receives would overwrite it.
  const std::byte* stable_input(const Plan& plan, const std::byte* input, const std::byte* output);
  /// The buffers of a call that begins, as peers have to know them.
  AnnouncedBuffers announced(const RunningCall& call) const {
    return {.input = call.input,
            .output = call.output,
            .input_allocation = peers_.allocation_of(call.input, call.plan->input_bytes),
            .output_allocation = peers_.allocation_of(call.output, call.plan->output_bytes)};
  }
  /// Tells the transport which buffers it is going to send from.
  void announce_to_transport(const RunningCall& call) {
    peers_.transport().announce_sources({call.input, call.plan->input_bytes.value()},
                                        {call.output, call.plan->output_bytes.value()});
  }

  /// Keeps peers from writing to the buffers, until redirect(). False, and nothing has changed, if
  /// a peer does not stop using them in time.
  bool hold(const RunningCall& call);
  /// Replaces the buffers of the call. When it returns, no peer and no transport uses the former
  /// ones.
  void redirect(RunningCall& call, const void* input, void* output);
  /// Waits until no peer and no transport uses the buffers of a call that has failed. The failure
  /// has been published before.
  void withdraw(const RunningCall& call);

 private:
  void wait_for_users(const RunningCall& call);
  void detach_from_transport(const RunningCall& call);
  bool is_snapshot(const std::byte* input) const {
    return !input_snapshot_.empty() && input == input_snapshot_.data();
  }

  Peers& peers_;
  const SegmentLayout layout_;
  CallLog& log_;
  std::vector<std::byte> input_snapshot_;
};

}  // namespace capstan
