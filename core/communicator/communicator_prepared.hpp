// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "capstan/communicator.hpp"
#include "core/communicator/checked_call.hpp"
#include "core/communicator/own_streams.hpp"
#include "core/engine/run/device_staging.hpp"
#include "core/engine/run/engine.hpp"
#include "core/engine/run/progress.hpp"
#include "core/engine/run/task.hpp"
#include "core/engine/world/world.hpp"
#include "core/platform/net/own_process.hpp"

// Shared by the files that implement Communicator.

namespace capstan {

class Communicator::Impl {
 public:
  explicit Impl(Member owned, std::shared_ptr<DeviceStaging> pinned = nullptr)
      : member(std::move(owned)), engine(*member.engine), staging(std::move(pinned)) {
    if (!staging)
      staging = std::make_shared<DeviceStaging>(engine.settings().pinned_memory,
                                                engine.settings().timeout);
    look_for_devices();
  }

  /// Saves what the autotuner has measured, if the settings say so.
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Throws InvalidArgument for a communicator that has been moved from.
  static Impl& of(const Communicator& communicator) {
    if (!communicator.impl_) [[unlikely]]
      refuse_moved_from();
    return *communicator.impl_;
  }

  Member member;
  Engine& engine;
  std::shared_ptr<DeviceStaging> staging;
  const OwnProcess process{};
  OwnStreams streams{};
  Impl* next_kept = nullptr;  ///< of those that were dropped and not destroyed
  int dropped_by = 0;         ///< the thread, in the function of an operation

 private:
  [[noreturn, gnu::cold, gnu::visibility("hidden")]] static void refuse_moved_from();
};

struct Communicator::Prepared {
  std::optional<Task> agreement{};  ///< runs first: its result completes the call of `main`
  Task main{};
  std::optional<Operation::Output> output{};  ///< the caller's

  /// Reads inputs that lie on devices. Its errors concern this rank only: nothing has been started.
  void read_devices() {
    if (main.reads_input_at_once) main.transfers.run_inputs();
  }
};

}  // namespace capstan
