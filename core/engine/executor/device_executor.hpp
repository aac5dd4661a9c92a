// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "core/engine/control/call_log.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/executor/device_plan.hpp"
#include "core/engine/executor/device_words.hpp"
#include "core/engine/executor/executor.hpp"
#include "core/platform/device/device_kernels.hpp"
#include "core/platform/device/device_probe.hpp"
#include "core/platform/device/stream_events.hpp"

namespace capstan {

/// Runs plans by kernels on a device, in the program's streams.
///
/// A call is launched first: launch() puts its kernel into a stream, behind the kernel of the call
/// before it, as lanes keep numbers from call to call. The engine then gets the call as a task.
/// Calls are launched and started in one order. The host sees by words in pinned memory what
/// kernels have begun and ended, publishes it for the peers, each call as one block, and asks the
/// driver nothing: a driver that frees memory waits for all kernels, and answers nobody meanwhile.
///
/// One thread at a time launches; all other functions are for the engine, under its lock.
class DeviceExecutor final : public Executor {
 public:
  /// Throws SystemError.
  DeviceExecutor(Peers& peers, DeviceWords& words, DeviceKernels& kernels,
                 const DeviceBuffer& where);

  /// How a kernel is put into its stream.
  struct Launch {
    void* stream = nullptr;
    bool captured = false;  ///< into a graph, which may launch it at any time
    bool timed = false;
  };
  /// Events of a launch, but for a captured one. `begins` is that of a timed one.
  struct Events {
    SharedEvent begins{}, ended{};
  };
  /// Throws SystemError.
  Events launch(DevicePlan& plan, const void* input, void* output, const Launch& how);
  /// Whether all kernels but those of graphs end in time. Asks the driver. A device that is lost
  /// lets everything pass.
  bool have_all_ended(Deadline deadline) const { return !last_ || last_->comes(deadline); }
  /// Whether graphs may launch kernels at any time, of which the host sees nothing: peers that are
  /// gone are missed then, also between calls.
  void expect_replays(bool expected) { expects_replays_ = expected; }
  /// The number of the last call that has finished.
  std::uint64_t finished() const { return finished_; }

  bool start(const Plan& plan, const void* input, void* output) override;
  bool advance() override;
  bool hold_buffers() override { return false; }
  void redirect(const void* /*input*/, void* /*output*/) override {}
  void withdraw_buffers() override { words_.abort(); }
  bool needs_peers() const override { return expects_replays_; }
  std::uint64_t progress() const override { return progress_; }
  Report report() const override;
  void compare_calls() override;

 private:
  using Clock = std::chrono::steady_clock;

  void copy_program(DevicePlan& plan, const Launch& how) const;
  void publish_end();
  std::vector<Rank> awaited() const;

  Peers& peers_;
  DeviceWords& words_;
  DeviceKernels& kernels_;
  const DeviceBuffer where_;
  DeviceProbe probe_;

  // For the thread that launches.
  const std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
  SharedEvent last_;  ///< behind the kernel of the last call

  CallLog log_;
  const Plan* plan_ = nullptr;  ///< of the call whose kernel runs; null: none does
  std::uint64_t progress_ = 0;
  std::atomic<std::uint64_t> launched_ = 0, finished_ = 0;
  std::atomic<Clock::time_point> moved_{};
  std::atomic<bool> expects_replays_ = false;
};

}  // namespace capstan
