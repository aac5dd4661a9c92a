// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "capstan/communicator.hpp"
#include "capstan/request.hpp"
#include "core/communicator/checked_call.hpp"
#include "core/communicator/device_group.hpp"
#include "core/communicator/device_plans.hpp"
#include "core/communicator/stream_profile.hpp"
#include "core/engine/run/engine.hpp"
#include "core/platform/device/device_probe.hpp"
#include "core/platform/device/stream_events.hpp"

namespace capstan {

/// Runs collectives of a group by kernels in the program's streams, where ranks have agreed that
/// they can.
///
/// The thread that calls uses take(), launch() and explain(), one call at a time, in the same order
/// on all ranks. Another one looks after what is in streams by watch(), and abort() may come from
/// any thread.
///
/// Order. Lanes keep numbers from call to call, so each call waits for the event behind the one
/// before it, whatever its stream. Calls through pinned memory use other resources: the transport
/// of their communicator, copies, a host thread. Either kind may be behind the other one in a
/// stream of the program. Still no ranks wait for each other in a circle. Whatever a call waits for
/// on a rank was put into a stream before it. All ranks make their calls in one order. So the first
/// call that has not ended anywhere finds all that it needs: on each rank what is before it has
/// ended, and its kernels have multiprocessors of their own.
class DevicePath {
 public:
  /// Access to what a communicator is made of.
  using EngineOf = Engine& (*)(const Communicator&);

  /// `ranks`: of the same members as the calls, for agreements alone.
  DevicePath(Communicator ranks, const Settings& settings, EngineOf engine_of);
  DevicePath(const DevicePath&) = delete;
  ~DevicePath();

  /// A call that runs by a kernel. It is launched before the next one is taken.
  struct Taken {
    CheckedCall checked;
    const CachedPlan* plan = nullptr;
  };
  /// Nothing if the call goes through pinned memory. All ranks get the same answer. Collective at
  /// the first call, and at the first one of a type and operation. Throws InvalidArgument, for a
  /// wrong request or another device than that of the first call; and what calls of a communicator
  /// throw.
  std::optional<Taken> take(const Request& request, const DeviceBuffer& where);
  /// How a call is put into its stream.
  enum class Manner {
    unwatched,  ///< nobody waits for its end
    watched,
    captured,  ///< into a graph
  };
  /// Puts a call into a stream; null: into one of its own. The future of a watched call tells its
  /// end. `profile` records the call when watch() finds that it has ended, unless it is captured;
  /// may be null. Throws SystemError.
  std::future<void> launch(const Taken& call, void* stream, Manner manner,
                           std::shared_ptr<const StreamProfile> profile);
  /// Which way such a call takes, and why.
  std::string explain(const Request& request) const;

  /// The farthest link between the devices; none: calls do not run by kernels, or none was made.
  std::optional<DeviceLink> link() const {
    return group_ ? std::optional{group_->link()} : std::nullopt;
  }
  /// Calls run by other rules from the next one on. Those so far have ended.
  void use_rules(AlgorithmRules rules) { plans_->use_rules(std::move(rules)); }

  /// Whether something has to be looked after.
  bool busy() const;
  /// Whether all calls so far have ended, but for replays of graphs.
  bool is_idle() const;
  /// Ends the handles of calls that have ended, and looks for what ends the group: failures and
  /// deaths of peers, and kernels that wait for too long. Returns the failure of this path.
  std::exception_ptr watch();
  /// How long to pause before the next watch().
  std::chrono::microseconds pause() const;
  /// Ends all kernels and later calls with this error, on all ranks.
  void fail(const std::exception_ptr& error);

 private:
  using Clock = std::chrono::steady_clock;

  struct InFlight {
    Call call{};
    CallMark mark{};
    unsigned lanes = 0;
    std::string way{};  ///< for profilers
    std::uint64_t number = 0;
    Clock::time_point put = Clock::now();
    StreamEvent ended{};
    StreamEvent begins{};  ///< before the kernel, where a profiler records the call
    std::shared_ptr<const StreamProfile> profile{};
    std::optional<std::promise<void>> watched{};  ///< of who waits for its end
    std::optional<Clock::time_point> began{};     ///< when it was first seen to have begun
    bool over = false;                            ///< its kernel has been seen to have ended
  };

  void require_device(const DeviceBuffer& where) const;
  void settle();
  std::exception_ptr trouble();
  void publish(InFlight& entry, bool over);
  void check_peers(Clock::time_point now);
  void take_events(InFlight& entry);
  void finish(InFlight& entry, const std::exception_ptr& error);
  void record(const InFlight& entry, bool failed);
  bool leave();

  Communicator ranks_;
  const Settings settings_;
  const EngineOf engine_of_;
  /// Makes no calls of its own: its engine compares those of kernels, and finds out for whom they
  /// wait. Of all ranks, from the first call on a device on.
  std::optional<Communicator> kernels_;
  KernelLog* log_ = nullptr;  ///< of kernels_
  std::unique_ptr<DeviceGroup> group_;
  std::unique_ptr<DevicePlans> plans_;
  std::optional<DeviceProbe> probe_;  ///< of the thread that watches
  std::string reason_ = "no call on a device has been made yet, at which ranks decide";
  void* own_stream_ = nullptr;

  mutable std::mutex mutex_;  // for what follows
  StreamEvents events_;
  std::deque<InFlight> in_flight_;
  /// The end of the last call that was recorded, by both clocks.
  struct RecordedEnd {
    StreamEvent event{};
    Clock::time_point time{};
  } last_recorded_;
  std::uint64_t number_ = 0;  ///< of the last call
  Clock::time_point check_due_{};
  int looks_ = 0;  ///< since a call was put into a stream, or has ended
  bool decided_ = false, captured_ = false, told_ = false;
  std::exception_ptr failure_;
};

}  // namespace capstan
