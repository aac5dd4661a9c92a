// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "capstan/communicator.hpp"
#include "capstan/request.hpp"
#include "capstan/work.hpp"
#include "core/communicator/checked_call.hpp"
#include "core/communicator/device_group.hpp"
#include "core/communicator/device_plans.hpp"
#include "core/communicator/stream_records.hpp"
#include "core/engine/executor/device_executor.hpp"
#include "core/engine/run/engine.hpp"

namespace capstan {

/// Runs collectives of a group by kernels in the program's streams, where ranks have agreed that
/// they can: as tasks of an engine whose executor is the device's. The engine's progress thread
/// sees to them. Used by one thread at a time, in the same order on all ranks.
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
  /// Puts a call into a stream; null: into one of its own. Returns the handle of a watched call,
  /// which `name` names. `profile` records the call, unless it is captured; may be null. Throws
  /// SystemError, and the failure of the group.
  Work launch(const Taken& call, void* stream, Manner manner,
              std::shared_ptr<const StreamProfile> profile, std::string name);
  /// Which way such a call takes, and why.
  std::string explain(const Request& request) const;

  /// The farthest link between the devices; none: calls do not run by kernels, or none was made.
  std::optional<DeviceLink> link() const {
    return group_ ? std::optional{group_->link()} : std::nullopt;
  }
  /// Calls run by other rules from the next one on. Those so far have ended.
  void use_rules(AlgorithmRules rules);
  /// Whether all calls so far have ended, but for replays of graphs.
  bool is_idle() const;

 private:
  bool form_group(const DeviceBuffer& where);
  void require_device(const DeviceBuffer& where) const;
  void* stream_for(void* stream);
  void record(const Taken& call, const std::shared_ptr<const KernelEnd>& end, SharedEvent begins,
              std::shared_ptr<const StreamProfile> profile);
  bool leave();

  Communicator ranks_;
  const Settings settings_;
  const EngineOf engine_of_;
  std::unique_ptr<DeviceGroup> group_;
  /// Its engine runs the calls. Of all ranks, from the first call on a device on.
  std::optional<Communicator> kernels_;
  Engine* engine_ = nullptr;            ///< of kernels_
  DeviceExecutor* executor_ = nullptr;  ///< of the engine
  std::unique_ptr<DevicePlans> plans_;
  bool decided_ = false;
  std::string reason_ = "no call on a device has been made yet, at which ranks decide";
  void* own_stream_ = nullptr;
  const std::shared_ptr<StreamRecords> records_ = std::make_shared<StreamRecords>();
  /// Events do not come any more.
  const std::shared_ptr<std::atomic<bool>> given_up_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace capstan
