// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "capstan/communicator.hpp"
#include "capstan/request.hpp"
#include "core/communicator/checked_call.hpp"
#include "core/communicator/device_group.hpp"
#include "core/engine/run/plan_cache.hpp"
#include "core/schedule/custom/proven_plans.hpp"
#include "core/schedule/lowering/plan.hpp"
#include "core/schedule/selection/kept_choices.hpp"

namespace capstan {

/// Whether kernels can run such calls at all: equal counts on all ranks, an operation that devices
/// have. A pure function of what is the same on all ranks.
bool suits_devices(const Request& request);

/// Calls of one kind, made ready for this rank's device.
struct DeviceCallKind {
  Call call{};
  std::string obstacle{};  ///< the reason why they do not run there; empty: they do
  Choice choice{};
  CallMark mark{};                                ///< peers compare it with their own
  kernels::device::ProgramArguments arguments{};  ///< all but the buffers
  void* kernel = nullptr;
  unsigned lanes = 0;  ///< that have blocks to run

  // For DeviceCalls.
  ProgramMemory::Piece program{};
  bool is_there = false;   ///< a copy of the program is in a stream, ahead of all that comes later
  bool captured = false;   ///< graphs may use the program at any time
  std::uint64_t last = 0;  ///< the number of the last call
};

/// The calls of a group, by kind.
///
/// A kind is made ready by each rank for itself, and costs a copy of its program in the stream of
/// its first call. Nothing is allocated for it as long as the programs of the kinds in use fit the
/// memory of the group: the least recently used ones make room. The kernel of a type and operation
/// is loaded by all ranks together: loading may wait for all kernels of a device, and these for
/// other ranks. Not thread-safe.
class DeviceCalls {
 public:
  using Kind = std::shared_ptr<const DeviceCallKind>;

  DeviceCalls(Communicator& ranks, DeviceGroup& group, SelectionContext selection,
              const Settings& settings);

  /// Collective at the first call of a type and operation. Throws Mismatch where ranks make
  /// different calls then, AlgorithmRefused, SystemError, and what calls of a communicator throw.
  Kind kind(const Call& call);
  /// Null for a kind that has not been made ready.
  Kind find(const Call& call) const;
  /// The choice by which such a call runs where no kernel is refused.
  Choice choice(const Call& call) { return choices_.choice(call); }
  /// Calls of kinds that nothing uses run by other rules from now on.
  void use_rules(AlgorithmRules rules);
  /// Puts a call into a stream. DeviceGroup::has_begun() and has_ended() tell of its number; of a
  /// call without one, 0, which is captured into a graph, they tell nothing. Throws SystemError.
  void launch(const Kind& kind, const CheckedCall& call, std::uint64_t number, void* stream);

 private:
  struct Kernel {
    void* handle = nullptr;
    Kind refused{};  ///< why no call of it runs on devices; null: they do
  };
  using Kinds = std::list<std::shared_ptr<DeviceCallKind>>;
  using KernelName = std::pair<DataType, ReduceOp>;

  const Kernel& kernel(const Call& call);
  std::shared_ptr<DeviceCallKind> make(const Call& call, void* kernel);
  Plan plan(const Call& call, const Choice& choice) const;
  void prove(const Plan& plan, const Choice& choice) const;
  ProgramMemory::Piece room_for(Bytes size);
  bool drop_one();

  Communicator& ranks_;
  DeviceGroup& group_;
  KeptChoices choices_;
  const ProofPolicy proofs_;
  std::map<KernelName, Kernel> kernels_;
  Kinds kinds_;  ///< the most recently used one first
  std::unordered_map<Call, Kinds::iterator, CallHash> known_;
};

}  // namespace capstan
