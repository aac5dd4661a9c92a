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
  /// In any order; repetitions count once.
  explicit CpuSet(std::vector<unsigned> cpus);
  /// The inverse of to_string: "0-3,8"; nothing between commas is not allowed, an empty text is the
  /// empty set. Throws InvalidArgument, also for indices above `largest_index`.
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

  /// Well above what any Linux kernel numbers; bounds what a malformed text can make us allocate.
  static constexpr unsigned largest_index = 65535;

 private:
  std::vector<unsigned> cpus_;
};

/// As taskset(1) and the kernel write it: "0-3,8".
std::string to_string(const CpuSet& set);

/// The same notation for any ascending numbers: {0, 1, 2, 5} is "0-2,5".
std::string to_ranges(std::span<const unsigned> ascending);

}  // namespace capstan
