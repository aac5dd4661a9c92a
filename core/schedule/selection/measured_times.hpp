// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/registry.hpp"
#include "core/schedule/lowering/protocol.hpp"

namespace capstan {

/// The measurement of one candidate.
struct MeasuredWay {
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::staged;
  std::uint64_t times_shorter = 1;  ///< see Choice
  double nanoseconds = 0;           ///< the median
  double spread = 0;                ///< distance between the quartiles, as a share of the median

  bool is_same_way(const MeasuredWay& other) const {
    return algorithm == other.algorithm && protocol == other.protocol &&
           times_shorter == other.times_shorter;
  }
};

/// The least ratio of the times of two ways: the spread of both counts in favour of the slow one.
double least_ratio(const MeasuredWay& slow, const MeasuredWay& fast);

/// As rules name it: "ring/staged", "ring/staged/4" with blocks that are four times shorter.
std::string name_of(const MeasuredWay& way);

/// Cells below decide nothing: their fastest way won too few rounds.
inline constexpr double least_confidence = 0.5;

/// A kind of call that was measured.
struct MeasuredCell {
  Collective collective = Collective::all_reduce;
  int ranks = 0, hosts = 1;
  Bytes bytes{};          ///< of the largest buffer
  double confidence = 0;  ///< share of the rounds in which the fastest way was among the fastest
  std::vector<MeasuredWay> ways{};  ///< the fastest first
  bool disturbed = false;           ///< the machine was busy: see MachineState

  /// Whether choices follow it: otherwise the model and trials decide.
  bool decides() const { return !ways.empty() && !disturbed && confidence >= least_confidence; }
  /// Why it decides nothing: "confidence 25 %, below 50 %"; empty if it decides, or has no ways.
  std::string doubt() const;
};

/// Sizes that are farther apart say nothing about those between them.
inline constexpr std::uint64_t widest_gap = 64;

/// Times of candidates that were measured, for calls of some sizes, and between these interpolated.
/// A value: the same on all ranks that decide by it.
class MeasuredTimes {
 public:
  /// `origin` says where they come from: "the profile FILE of 2026-11-25".
  explicit MeasuredTimes(std::string origin = {}) : origin_(std::move(origin)) {}

  const std::string& origin() const { return origin_; }
  /// Adds a cell, unless it has no ways; the last one of a kind and size counts.
  void add(MeasuredCell cell);
  bool empty() const { return cells_.empty(); }

  /// The times of candidates for calls of this kind and size, the fastest first. Between two sizes
  /// that are at most `widest_gap` times apart, times are interpolated (logarithms over
  /// logarithms), the confidence is the lower one, and one that is disturbed disturbs both. A
  /// candidate that was measured at one of both sizes is assumed to grow as the fastest does, and
  /// counts less the farther away that size is. Elsewhere a cell counts for sizes up to four times
  /// larger and down to four times smaller. No ways: nothing that says so was measured.
  MeasuredCell at(Collective collective, int ranks, int hosts, Bytes bytes) const;

 private:
  std::string origin_;
  std::vector<MeasuredCell> cells_;  // of a kind side by side, by size
};

}  // namespace capstan
