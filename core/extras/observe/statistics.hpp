// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "capstan/observe/operation_profile.hpp"
#include "core/extras/observe/recording.hpp"

namespace capstan {

/// Sums over operations.
struct ProfileSums {
  std::uint64_t count = 0, failures = 0, bytes = 0, nanoseconds = 0;
  double bandwidth = 0;  ///< the sum
  double least = std::numeric_limits<double>::max(), greatest = 0;

  void add(const StoredOperation& operation) noexcept;
  void add(const ProfileSums& other) noexcept;
};

/// The sums of each pair of operation and algorithm. Their number is bounded: further pairs are
/// counted together. Nothing here allocates once it is made.
class ProfileGroups {
 public:
  static constexpr std::size_t most = 255;  ///< besides that of all further pairs
  struct Group {
    Recording::Name operation = 0, algorithm = 0;
    ProfileSums sums{};

    bool includes(const StoredOperation& each) const {
      return each.operation == operation && each.algorithm == algorithm;
    }
  };

  ProfileGroups() { groups_.reserve(most + 1); }
  void add(const StoredOperation& operation) noexcept;
  /// In the order in which they came.
  const std::vector<Group>& all() const { return groups_; }
  void clear() noexcept;

 private:
  Group& group_of(Recording::Name operation, Recording::Name algorithm) noexcept;

  std::vector<Group> groups_;
  std::array<std::uint16_t, 1024> places_{};  ///< by hash, index + 1; 0: free
};

/// The statistics of `sums`, with percentiles of the operations in `stored`.
ProfileStatistics statistics_of(const ProfileSums& sums,
                                const std::vector<StoredOperation>& stored);

}  // namespace capstan
