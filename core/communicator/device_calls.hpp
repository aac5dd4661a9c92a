// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "capstan/communicator.hpp"
#include "capstan/request.hpp"
#include "core/communicator/checked_call.hpp"
#include "core/communicator/device_group.hpp"
#include "core/engine/run/plan_cache.hpp"
#include "core/schedule/lowering/plan.hpp"

namespace capstan {

/// Whether kernels can run such calls at all: equal counts on all ranks, an operation that devices
/// have. A pure function of what is the same on all ranks.
bool suits_devices(const Request& request);

/// How such a call runs on devices that reach each other over such links: in packets where it is
/// short, otherwise staged. A pure function.
Choice choice_on_devices(const Call& call, int ranks, DeviceLink link);

/// Calls of one kind, made ready for this rank's device.
struct DeviceCallKind {
  std::string obstacle{};  ///< the reason why they do not run there; empty: they do
  Choice choice{};
  kernels::device::ProgramArguments arguments{};  ///< all but the buffers
  DeviceBlock program{};
  void* kernel = nullptr;
  unsigned lanes = 0;  ///< that have blocks to run
};

/// The calls of a group, by kind. A kind is made ready at its first call, by all ranks together:
/// they agree that it can run everywhere, and no kernel of it starts before every rank has
/// allocated what it needs. An allocation may wait for all kernels of a device, and these for other
/// ranks. Not thread-safe.
class DeviceCalls {
 public:
  /// The most kinds of calls that a group keeps; it keeps each as long as it lives. Calls of
  /// further kinds go through pinned memory.
  static constexpr std::size_t most_kinds = 1024;

  DeviceCalls(Communicator& ranks, DeviceGroup& group) : ranks_(ranks), group_(group) {}

  /// Collective at the first call of a kind. Throws Mismatch where ranks make different calls, and
  /// what calls of a communicator throw.
  const DeviceCallKind& kind(const Call& call);
  /// Null for a kind that has not been made ready yet.
  const DeviceCallKind* find(const Call& call) const {
    const auto known = kinds_.find(call);
    if (known != kinds_.end()) return &known->second;
    return kinds_.size() == most_kinds ? &too_many_ : nullptr;
  }
  /// Puts a call into a stream. DeviceGroup::has_begun() and has_ended() tell of its number; of a
  /// call without one, 0, they tell nothing. Throws SystemError.
  void launch(const DeviceCallKind& kind, const CheckedCall& call, std::uint64_t number,
              void* stream);
  /// Never releases the memory that kernels may still use.
  void keep_for_good();

 private:
  DeviceCallKind make(const Call& call);
  void prepare(DeviceCallKind& kind, const Plan& plan);
  std::byte* scratch(Bytes size);

  Communicator& ranks_;
  DeviceGroup& group_;
  std::unordered_map<Call, DeviceCallKind, CallHash> kinds_;
  const DeviceCallKind too_many_{.obstacle =
                                     "the group has made 1024 kinds of calls on devices, and "
                                     "keeps no more"};
  std::vector<DeviceBlock> scratch_;  ///< shared by all kinds, as calls run one after another
};

}  // namespace capstan
