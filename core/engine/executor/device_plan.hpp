// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/platform/device/program_memory.hpp"
#include "kernels/device/program.hpp"

namespace capstan {

/// A plan's program in memory of the device, and the arguments of its launches: a DeviceExecutor
/// needs them beside the plan. Not thread-safe.
struct DevicePlan {
  DevicePlan(ProgramMemory& memory, const ProgramMemory::Piece& program)
      : program(program), memory_(memory) {}
  DevicePlan(const DevicePlan&) = delete;
  ~DevicePlan() {
    if (!captured) memory_.give_back(program);
  }

  const ProgramMemory::Piece program;
  kernels::device::ProgramArguments arguments{};  ///< all but the buffers and the number
  void* kernel = nullptr;
  unsigned lanes = 0;      ///< that have blocks to run
  bool is_there = false;   ///< a copy of the program is in a stream, ahead of all that comes later
  bool captured = false;   ///< graphs may use the program at any time
  std::uint64_t last = 0;  ///< the number of the last call

 private:
  ProgramMemory& memory_;
};

}  // namespace capstan
