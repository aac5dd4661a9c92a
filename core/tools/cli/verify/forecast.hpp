// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>

#include "core/tools/cli/verify/cell.hpp"

namespace capstan::cli {

/// Cells in words: "87 algorithms on 12 worlds".
std::string summary_of(std::span<const ProofCell> cells);

/// The time that proofs will take.
class Forecast {
 public:
  /// Proves some of the algorithms on few ranks, to see how fast that is here.
  Forecast(std::span<const ProofCell> cells, int threads);

  double seconds() const { return seconds_; }
  /// The time that is left when so much work is done and so much time has passed.
  double seconds_left(double done, double elapsed) const;
  /// 0 to 1.
  double share(double done) const { return all_ > 0 ? done / all_ : 1; }

 private:
  double all_ = 0, seconds_ = 0.001;
};

/// Shows on standard error what is being proven, and the time left. It shows nothing where that is
/// no terminal.
class ProgressLine {
 public:
  explicit ProgressLine(const Forecast& forecast);

  void show(double done, const ProofCell& begun);
  /// Makes room for another line.
  void clear();
  double elapsed() const;

 private:
  using Clock = std::chrono::steady_clock;

  const Forecast& forecast_;
  const bool terminal_;
  bool shown_ = false;
  const Clock::time_point start_ = Clock::now();
  double done_ = -1, end_ = 0;  // the end that was foreseen when so much was done
};

}  // namespace capstan::cli
