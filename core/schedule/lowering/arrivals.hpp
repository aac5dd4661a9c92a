// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "capstan/schedule.hpp"
#include "core/schedule/lowering/exports.hpp"
#include "core/schedule/lowering/program.hpp"

namespace capstan {

/// Bytes that a signal announces: the place that the sender published them in, and their landing,
/// the receiver's own span that the schedule puts them in.
struct Arrival {
  Span landing;
  Operand staging;
};

/// The signals of one rank to another, one after the other.
class SignalsFrom {
 public:
  /// `exports`: of the sender.
  SignalsFrom(const Schedule& sender, const Exports& exports, Rank receiver);

  /// The bytes that the next signal announces. Nothing for a wait without a signal, which the
  /// verifier refuses.
  const std::vector<Arrival>& next();

 private:
  std::vector<std::vector<Arrival>> signals_;
  std::size_t next_ = 0;
};

}  // namespace capstan
