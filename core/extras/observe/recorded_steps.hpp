// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "capstan/observe/profiler.hpp"
#include "core/extras/observe/recording.hpp"

namespace capstan {

/// The steps of operations, in a ring: new ones replace the oldest. Allocates only when it is made.
class RecordedSteps {
 public:
  /// Throws InvalidArgument for more than Recording::most_operations, SystemError without memory.
  explicit RecordedSteps(std::size_t capacity);

  std::size_t capacity() const { return capacity_; }
  /// Adds the steps of an operation; of too many the last. Names go into the recording's table.
  void append(const StoredOperation& operation, std::uint64_t number,
              std::span<const StepMeasurement> steps, Recording& recording) noexcept;
  void clear() noexcept { written_ = 0; }
  std::vector<StepProfile> profiles(const Recording& recording) const;

 private:
  struct Stored {
    std::uint64_t operation, bytes, block;
    std::int64_t began, ended;
    std::int32_t peer, rank;
    std::uint32_t number;
    Recording::Name step, tag;
  };
  static StepProfile profile_of(const Stored& stored, const Recording& recording);

  std::size_t capacity_;
  std::vector<Stored> ring_;
  std::uint64_t written_ = 0;
};

}  // namespace capstan
