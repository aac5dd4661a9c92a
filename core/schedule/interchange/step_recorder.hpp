// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "capstan/collective.hpp"
#include "capstan/schedule.hpp"

namespace capstan {

/// Makes a schedule of steps that are given as data.
class StepRecorder {
 public:
  /// For one rank of a call, whose steps may use so much of its buffers. `hosts` are those of all
  /// ranks; a rank may put to the output of any of them, of which `largest_output` is the longest.
  StepRecorder(const Hosts& hosts, Rank self, const Extents& extents, Elements largest_output);

  /// Steps come in the order of their phases.
  void record(const Step& step, std::span<const Span> sources);
  Schedule build(int phases) &&;

 private:
  void go_to(int phase);

  ScheduleBuilder builder_;
  int phase_ = 0;
};

}  // namespace capstan
