// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/schedule/lowering/plan.hpp"
#include "kernels/device/program.hpp"

namespace capstan {

/// The layout of segments on devices, the same on all ranks.
class DeviceSegments {
 public:
  /// Throws InvalidArgument for more ranks than a lane's memory has room for.
  DeviceSegments(int ranks, int lanes, Bytes staging_region);

  /// The parts of the layout that plans for devices are made with.
  const SlotLayout& slots() const { return slots_; }
  const kernels::device::SegmentShape& shape() const { return shape_; }
  int lanes() const { return lanes_; }
  /// The bytes of one rank's segment.
  Bytes total() const { return of_lane() * static_cast<std::uint64_t>(lanes_); }
  Bytes of_lane() const { return Bytes{shape_.lane_bytes}; }
  /// The bytes at the beginning of a lane that have to be zero at first: signals and packets. The
  /// staging buffers lie behind them and need not be cleared.
  Bytes zeros_of_lane() const { return Bytes{shape_.slots_begin[0]}; }

 private:
  int lanes_;
  SlotLayout slots_;
  kernels::device::SegmentShape shape_;
};

/// The neutral part of a plan, as the executor on a device reads it. Made once per plan; holds no
/// address.
struct DeviceProgram {
  /// Throws InvalidArgument for a plan that needs the host: one that sends over a network, reads
  /// buffers of peers, or has an operation of the program's own.
  DeviceProgram(const Plan& plan, int ranks);

  /// Sets the members that are numbers of this program.
  void put_into(kernels::device::ProgramArguments& arguments) const;

  std::uint64_t block_count = 1, block_distance = 0;
  /// Programs of blocks: the first for all, but for the last block if there are two.
  std::vector<kernels::device::ProgramBlock> blocks;
  std::vector<kernels::device::ProgramOp> ops;
  std::vector<kernels::device::ProgramOperand> operands;
  std::uint32_t most_operands = 1;  ///< of any block
  bool packets = false;
  Bytes scratch{};  ///< of a lane
};

}  // namespace capstan
