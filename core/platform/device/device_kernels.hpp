// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "capstan/types.hpp"
#include "core/platform/device/device_memory.hpp"
#include "kernels/device/program.hpp"

namespace capstan {

/// A reduction on a device: destination = source 0 ⊕ source 1 ⊕ ..., in this order. Each
/// destination may be one of the sources. Memory of other devices needs enable_peer() before.
struct DeviceReduction {
  std::span<void* const> destinations;   ///< 1 to 8
  std::span<const void* const> sources;  ///< 1 to 64
  std::uint64_t element_count = 0;
  std::uint32_t divisor = 1;  ///< more than 1 for an average that is completed
};

/// The kernels of one place. The library carries them as images (kernels/device/images.hpp), and
/// the vendor's driver loads these at the first use: nothing links a vendor's library. Thread-safe.
class DeviceKernels {
 public:
  /// The kernels of the place of a buffer, or of a stream. Loads them at the first call for a
  /// place, for the life of the process. Throws SystemError when this build has none for the
  /// vendor, or none for the device.
  static DeviceKernels& at(const DeviceBuffer& where);

  /// The number of blocks that the device runs side by side, at least.
  int multiprocessors() const { return multiprocessors_; }
  /// Puts a reduction into a stream of the place. Results are those of kernels::reduce_kernel(),
  /// bit for bit. Throws InvalidArgument unless supports(type, op), and for too many operands;
  /// SystemError.
  void reduce(DataType type, ReduceOp op, const DeviceReduction& reduction, void* stream);
  /// The kernel of programs of this type and operation, loaded. Throws SystemError.
  void* program_kernel(DataType type, ReduceOp op);
  /// Puts a program into a stream, on so many lanes. All that the arguments point to is memory that
  /// the device reaches. Kernels of several ranks wait for each other: together they must have no
  /// more lanes than multiprocessors(), or they may wait for ever. Throws SystemError.
  void run(void* program_kernel, const kernels::device::ProgramArguments& arguments, unsigned lanes,
           void* stream);

 private:
  explicit DeviceKernels(const DeviceBuffer& where);
  void* kernel(const std::string& name);

  const DeviceBuffer where_;
  int multiprocessors_ = 1;
  std::vector<void*> modules_;
  std::mutex mutex_;
  std::map<std::string, void*> kernels_;  // by name
};

}  // namespace capstan
