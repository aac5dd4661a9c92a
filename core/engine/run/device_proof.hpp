// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "capstan/by_rank.hpp"
#include "core/engine/executor/device_program.hpp"
#include "core/schedule/lowering/prove_plan.hpp"
#include "core/schedule/proof/prove.hpp"

namespace capstan {

/// The programs of all ranks for a call, as kernels run them.
struct DevicePrograms {
  /// `plans` is kept by reference. Throws InvalidArgument for plans that need the host.
  explicit DevicePrograms(const ByRank<Plan>& plans);

  const ByRank<Plan>& plans;
  ByRank<DeviceProgram> programs;
};

struct DeviceProofOptions {
  bool in_place = false;            ///< output and input share memory
  std::uint32_t slots = 2;          ///< of each kind, at most: a few calls use all of them
  proof::Budget* budget = nullptr;  ///< null: none
};

/// Proves that the programs of a lane of each rank keep the promises of the collectives, in every
/// interleaving, as prove_plans() does for the host: with the kernel's rotation of slots and its
/// notices of finished blocks, at the addresses that it works out. Also that threads of a lane meet
/// wherever one depends on what another has done, and that blocks of a call, which other lanes may
/// run at the same time, do not touch what others write. The calls follow one another in one group.
proof::Result prove_on_devices(const std::vector<const DevicePrograms*>& calls,
                               const DeviceSegments& segments,
                               const DeviceProofOptions& options = {});

/// Proves the programs of a planned call, with few blocks, called back to back, in place and not.
/// Throws proof::TooMuchWork.
AlgorithmProof prove_on_devices(const PlannedCall& planned, const DeviceSegments& segments,
                                proof::Budget& budget);

}  // namespace capstan
