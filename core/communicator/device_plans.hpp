// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "capstan/communicator.hpp"
#include "capstan/request.hpp"
#include "core/communicator/device_group.hpp"
#include "core/engine/executor/device_plan.hpp"
#include "core/engine/run/plan_cache.hpp"
#include "core/engine/run/progress.hpp"

namespace capstan {

/// Whether kernels can run such calls at all: equal counts on all ranks, an operation that devices
/// have. A pure function of what is the same on all ranks.
bool suits_devices(const Request& request);

/// The plans of a group's calls, made ready for this rank's device.
///
/// Each rank makes a plan for itself, which costs a copy of its program in the stream of its first
/// call. Nothing is allocated for it as long as the programs of the plans in use fit the memory of
/// the group: the least recently used ones make room. The kernel of a type and operation is loaded
/// by all ranks together: loading may wait for all kernels of a device, and these for other ranks.
/// Not thread-safe.
class DevicePlans {
 public:
  /// The last call of a plan has ended, and nobody refers to the plan, where its number is
  /// `finished` at most under the lock of `progress`.
  struct Use {
    std::shared_ptr<Progress> progress;
    std::function<std::uint64_t()> finished;
  };
  DevicePlans(Communicator& ranks, DeviceGroup& group, SelectionContext selection,
              const Settings& settings, Use use);

  /// The reason why no kernel runs such calls; empty: one does. Collective at the first call of a
  /// type and operation. Throws Mismatch where ranks make different calls then, and what calls of a
  /// communicator throw.
  const std::string& obstacle(const Call& call);
  /// The same as far as ranks have agreed.
  std::string known_obstacle(const Call& call) const;
  /// The plan of calls without an obstacle. Throws AlgorithmRefused, SystemError.
  const CachedPlan& plan(const Call& call);
  /// The choice by which such a call runs.
  Choice choice(const Call& call) { return plans_.choice(call); }
  /// Calls run by other rules from now on. Those so far have ended.
  void use_rules(AlgorithmRules rules) { plans_.use_rules(std::move(rules)); }

 private:
  struct Kernel {
    void* handle = nullptr;
    std::string obstacle{};  ///< why no call of it runs on devices; empty: they do
  };
  using KernelName = std::pair<DataType, ReduceOp>;

  PlanContext context(const Settings& settings) const;
  const Kernel& kernel(const Call& call);
  void make_ready(CachedPlan& made, const Choice& choice);
  void prove(const Plan& plan, const Choice& choice) const;
  ProgramMemory::Piece room_for(Bytes size);
  bool forget_one();

  Communicator& ranks_;
  DeviceGroup& group_;
  const Use use_;
  const ProofPolicy proofs_;
  std::map<KernelName, Kernel> kernels_;
  PlanCache plans_;
};

}  // namespace capstan
