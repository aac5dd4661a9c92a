// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "capstan/by_rank.hpp"
#include "capstan/quantity.hpp"
#include "core/schedule/lowering/program.hpp"

namespace capstan {

/// An operation of a program that an executor has carried out, or the wait for a slot before it.
struct RecordedStep {
  std::optional<OpCode> code{};  ///< none: waited until the slot's last readers had finished
  std::uint32_t sources = 0;     ///< that were combined or, if there is one, copied
  std::optional<Rank> peer{};    ///< that was signalled, awaited, pushed to or read from
  Bytes bytes{};                 ///< of one operand
  std::uint64_t block = 0;
  std::uint32_t step = 0;             ///< of the schedule
  std::int64_t began = 0, ended = 0;  ///< nanoseconds of the steady clock
};

/// The first steps of the call that an executor runs, up to a limit. Takes its memory when it is
/// made. Used by one thread at a time.
class StepLog {
 public:
  explicit StepLog(std::size_t most) : most_(most) { steps_.reserve(most); }

  void begin_call() {
    steps_.clear();
    began_ = 0;
  }
  /// A step begins, or is tried again.
  void begin_step() {
    if (began_ == 0) began_ = now();
  }
  void forget_step() { began_ = 0; }
  void end_step(RecordedStep step) {
    step.began = std::exchange(began_, 0);
    step.ended = now();
    if (steps_.size() < most_) steps_.push_back(step);
  }

  const std::vector<RecordedStep>& steps() const { return steps_; }

 private:
  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  const std::size_t most_;
  std::vector<RecordedStep> steps_;
  std::int64_t began_ = 0;
};

}  // namespace capstan
