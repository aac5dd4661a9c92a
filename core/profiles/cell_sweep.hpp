// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/schedule/selection/measured_times.hpp"

namespace capstan {

/// Measures the candidates for one kind of call, round by round. Hopeless ones are dropped early.
/// Then coordinate descent shortens the blocks of the best one for as long as that helps.
///
/// A pure object: it reads no clock. Ranks that give it the same times decide alike.
class CellSweep {
 public:
  struct Options {
    int rounds = 9;                  ///< of the candidates that are not dropped
    std::uint64_t most_shorter = 1;  ///< blocks are made shorter down to this share; 1: not at all
  };
  /// `cell` says what is measured; its ways are the candidates, without times.
  CellSweep(MeasuredCell cell, const Options& options);

  bool finished() const { return stage_ == Stage::finished; }
  /// The candidates of the next round.
  std::vector<MeasuredWay> round() const;
  /// Notes the time of each candidate of the round, in nanoseconds.
  void note(const std::vector<double>& nanoseconds);
  /// All candidates with their times, the fastest first.
  MeasuredCell result() const;
  /// Every time of every candidate, in nanoseconds, in the order of rounds.
  struct Times {
    MeasuredWay way;
    std::vector<double> nanoseconds{};
  };
  std::vector<Times> all_times() const;

 private:
  enum class Stage { candidates, shorter, finished };
  struct Entry {
    MeasuredWay way;
    std::vector<double> times{};
    bool dropped = false;
  };
  static double typical(const Entry& entry);
  static double least(const Entry& entry);
  std::size_t best() const;
  void drop_slower_than(double times);
  void end_stage();
  void try_shorter(std::size_t parent);

  MeasuredCell cell_;
  const Options options_;
  Stage stage_ = Stage::candidates;
  int rounds_ = 0;  // of this stage
  std::vector<Entry> entries_;
  std::size_t parent_ = 0;  // whose shorter blocks are tried
};

}  // namespace capstan
