// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstan {

/// A set of processing units (hardware threads), named by the operating system's indices.
class CpuSet {
 public:
  CpuSet() = default;
  /// From indices in any order; repeated ones count once.
  explicit CpuSet(std::vector<unsigned> cpus);
  /// The inverse of to_string: "0-3,8". An empty text is the empty set. Throws InvalidArgument for
  /// anything else, also for indices above `largest_index`.
  static CpuSet parse(std::string_view text);

  bool empty() const { return cpus_.empty(); }
  std::size_t size() const { return cpus_.size(); }
  bool contains(unsigned cpu) const;
  /// Whether all of `other` is in this set.
  bool contains(const CpuSet& other) const;
  bool intersects(const CpuSet& other) const { return !(*this & other).empty(); }

  /// In ascending order.
  auto begin() const { return cpus_.begin(); }
  auto end() const { return cpus_.end(); }

  CpuSet operator&(const CpuSet& other) const;
  CpuSet operator|(const CpuSet& other) const;
  bool operator==(const CpuSet&) const = default;

  /// Far above the indices of any Linux kernel. Bounds the memory that a malformed text can take.
  static constexpr unsigned largest_index = 65535;

 private:
  std::vector<unsigned> cpus_;
};

/// The notation of taskset(1) and the kernel: "0-3,8".
std::string to_string(const CpuSet& set);

/// The same notation for any ascending numbers: {0, 1, 2, 5} is "0-2,5".
std::string to_ranges(std::span<const unsigned> ascending);

}  // namespace capstan
