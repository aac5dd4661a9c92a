// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <utility>
#include <vector>

namespace capstan::perf {

/// Robust statistics of repeated measurements: a few disturbed values do not move them. Results are
/// in the unit of the values.
class Statistics {
 public:
  /// Throws std::invalid_argument when there are no values.
  explicit Statistics(std::vector<double> values) : sorted_(std::move(values)) {
    if (sorted_.empty()) throw std::invalid_argument("no values to make statistics of");
    std::ranges::sort(sorted_);
  }

  /// The quantile at `share` (0 to 1): the measured value of nearest rank, the greater one of two
  /// that are equally near.
  double quantile(double share) const {
    const auto last = static_cast<double>(sorted_.size() - 1);
    return sorted_[static_cast<std::size_t>(std::round(std::clamp(share, 0.0, 1.0) * last))];
  }
  double least() const { return sorted_.front(); }
  double median() const { return quantile(0.5); }
  /// The interquartile range as a share of the median; 0 where the median is 0.
  double spread() const { return median() == 0 ? 0 : (quantile(0.75) - quantile(0.25)) / median(); }

 private:
  std::vector<double> sorted_;
};

}  // namespace capstan::perf
