// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <limits>

namespace capstan::proof {

/// A proof takes more work than its budget.
class TooMuchWork : public std::exception {
 public:
  const char* what() const noexcept override { return "the proof takes too much work"; }
};

/// The work that proofs may take, about a nanosecond a unit. It is counted and not timed: ranks
/// that prove the same give up at the same place, or none of them does.
class Budget {
 public:
  explicit Budget(std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) : left_(most) {}

  /// Throws TooMuchWork.
  void spend(std::uint64_t work) {
    if (work > left_) throw TooMuchWork{};
    left_ -= work;
  }
  std::uint64_t left() const { return left_; }

 private:
  std::uint64_t left_;
};

}  // namespace capstan::proof
