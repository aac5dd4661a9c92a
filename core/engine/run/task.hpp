// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/engine/run/agreement.hpp"
#include "core/engine/run/transfers.hpp"
#include "core/platform/memory/registration/address_range.hpp"
#include "core/schedule/lowering/call.hpp"

namespace capstan {

class Operation;
struct CachedPlan;

/// The end of a call, for a caller that waits in the call itself.
struct Outcome {
  std::exception_ptr error{};
  std::atomic<bool> finished = false;  ///< set last
};

/// One collective operation in the queue of a rank. Operations of a communicator run one after
/// another, in the order in which they were asked for, which is the same on all ranks.
struct Task {
  std::optional<Call> call{};        ///< none: it is that of the plan
  const CachedPlan* plan = nullptr;  ///< of the call, as soon as it is known
  const void* input = nullptr;
  void* output = nullptr;
  Bytes input_bytes{}, output_bytes{};

  // The receiver of the result: an operation handle, a caller that waits, or none.
  std::shared_ptr<Operation> operation{};
  Outcome* outcome = nullptr;

  // The input or output is memory of the task, not the caller's.
  bool owns_input = false, owns_output = false;

  /// Copies between the caller's buffers and memory of the task.
  Transfers transfers{};
  /// The input is read when the task is put into the queue, not when its turn comes, as it is on a
  /// device.
  bool reads_input_at_once = false;
  /// Completes the call with the result of the agreement before it, when its turn comes.
  std::function<void(Task&)> complete_call{};
  /// Memory that lives as long as the task.
  std::vector<std::shared_ptr<void>> keep{};

  const Call& known_call() const;
  /// Makes it a new task. Costs little where little was set.
  void clear();
};

/// The task of an agreement, whose result will be in `answers`.
template <class Range>
Task task_of(const Call& agreement, const std::shared_ptr<Answers<Range>>& answers) {
  const auto bytes = [](Range& range) { return Bytes{range.size() * sizeof *range.data()}; };
  return {.call = agreement,
          .input = answers->own.data(),
          .output = answers->result.data(),
          .input_bytes = bytes(answers->own),
          .output_bytes = bytes(answers->result),
          .keep = {answers}};
}

/// Replaces the input, the output or both by memory that `memory_for` gives for a range of
/// addresses: one range for both where they overlap. The task owns that memory from then on.
void replace_buffers(Task& task, bool input, bool output,
                     const std::function<std::byte*(AddressRange)>& memory_for);

/// Detaches a task from the caller's buffers: from now on it reads and writes private copies, so
/// that peers get what they expect and nothing writes to the caller's memory any more.
void detach(Task& task, bool started);

}  // namespace capstan
