// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "capstan/communicator.hpp"
#include "core/communicator/device_agreement.hpp"
#include "core/engine/executor/device_program.hpp"
#include "core/engine/executor/device_words.hpp"
#include "core/platform/device/device_block.hpp"
#include "core/platform/device/device_kernels.hpp"
#include "core/platform/device/device_link.hpp"
#include "core/platform/device/lane_reservation.hpp"
#include "core/platform/device/program_memory.hpp"

namespace capstan {

struct DeviceFacts;

/// Ranks whose kernels meet: each has a segment on its device, which the others reach, and lanes
/// that all run side by side. Made and ended by all ranks together. Not thread-safe.
///
/// Ranks reach each other's segments by their addresses where they are threads of one process, with
/// peer access between devices, and by the drivers' handles otherwise.
class DeviceGroup {
 public:
  /// Null where ranks cannot: `reason` then says why, the same on all ranks. A failure on one rank
  /// keeps all from it. Throws what calls of `ranks` throw.
  static std::unique_ptr<DeviceGroup> form(Communicator& ranks, const DeviceBuffer& where,
                                           const Settings& settings, std::string& reason);
  DeviceGroup(const DeviceGroup&) = delete;
  ~DeviceGroup();

  int lanes() const { return lanes_->lanes(); }
  int rank() const { return rank_; }
  /// The farthest link that any rank's device crosses to reach a segment.
  DeviceLink link() const { return link_; }
  const DeviceSegments& segments() const { return *segments_; }
  const DeviceBuffer& where() const { return blocks_->where(); }
  ProgramMemory& memory() { return *memory_; }
  DeviceKernels& kernels() { return *kernels_; }
  DeviceWords& words() { return *words_; }

  /// The arguments that all launches have in common.
  kernels::device::ProgramArguments arguments() const;

  /// All ranks end the group, when their kernels have ended. False: one did not come in time. Its
  /// memory then has to be kept. Throws what calls of `ranks` throw.
  bool leave(Communicator& ranks, Deadline deadline);
  /// Memory that kernels of peers may still use is never released; nor are this rank's lanes where
  /// its own kernels may still run.
  void keep_for_good(bool own_kernels_run);

 private:
  struct Segment;
  explicit DeviceGroup(int rank) : rank_(rank) {}
  std::string reach_segments(Communicator& ranks, const std::vector<DeviceFacts>& facts);
  Segment set_up(const std::vector<DeviceFacts>& facts);
  DeviceLink farthest_of(const std::vector<DeviceFacts>& facts) const;
  void map(const std::vector<DeviceFacts>& facts, const std::vector<Segment>& segments);
  void close_mapped();

  const int rank_;
  DeviceLink link_ = DeviceLink::memory;
  std::unique_ptr<DeviceBlocks> blocks_;
  std::optional<LaneReservation> lanes_;
  std::optional<DeviceSegments> segments_;
  DeviceKernels* kernels_ = nullptr;
  std::unique_ptr<ProgramMemory> memory_;
  DeviceBlock segment_, states_, addresses_;
  std::optional<DeviceWords> words_;
  std::vector<void*> mapped_;  ///< segments of other processes
};

}  // namespace capstan
