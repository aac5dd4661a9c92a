#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "core/lowering/call.hpp"
#include "core/memory/registration/address_range.hpp"

namespace capstan {

class Operation;
struct Plan;

/// Where a caller that waits in the call itself learns of its end.
struct Outcome {
  std::exception_ptr error{};
  std::atomic<bool> finished = false;  ///< set last
};

/// One collective operation that a rank has been asked for. Operations of a communicator run one
/// after the other, in the order in which they were asked for, which is the same on all ranks.
struct Task {
  Call call{};
  const Plan* plan = nullptr;  ///< of the call, as soon as it is known
  const void* input = nullptr;
  void* output = nullptr;
  Bytes input_bytes{}, output_bytes{};

  /// Who is to be told of the end: an operation handle, a caller that waits, or nobody.
  std::shared_ptr<Operation> operation{};
  Outcome* outcome = nullptr;

  // Which of them are memory of the task, not the caller's.
  bool owns_input = false, owns_output = false;

  /// Copies the caller's input to memory of the task, if it has to be packed or scaled, or lies on
  /// a device.
  std::function<void()> pack{};
  bool packs_at_start = false;  ///< not when its turn comes: the input lies on a device
  /// Completes the call when its turn comes, from results of the tasks before it.
  std::function<void(Task&)> complete{};
  /// Moves results from memory of the task to the caller's output. What it throws is the call's
  /// error, on this rank only.
  std::function<void()> unpack{};
  /// Memory that lives as long as the task.
  std::vector<std::shared_ptr<void>> keep{};
};

/// Replaces the input, the output or both by memory that `memory_for` gives for a range of
/// addresses: one for both where they overlap. It is the task's from then on.
void replace_buffers(Task& task, bool input, bool output,
                     const std::function<std::byte*(AddressRange)>& memory_for);

/// Detaches a task from the caller's buffers: from now on it reads and writes private copies, so
/// that peers get what they expect and nobody writes to the caller's memory any more.
void detach(Task& task, bool started);

}  // namespace capstan
