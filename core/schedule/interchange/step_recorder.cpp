// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/interchange/step_recorder.hpp"

#include <algorithm>
#include <utility>

#include "capstan/by_rank.hpp"
#include "capstan/error.hpp"

namespace capstan {

StepRecorder::StepRecorder(const Hosts& hosts, Rank self, const Extents& extents,
                           Elements largest_output)
    : builder_(Group::world(hosts, self), extents.input, extents.output,
               std::max(extents.output, largest_output)) {
  builder_.scratch(extents.scratch);
}

void StepRecorder::record(const Step& step, std::span<const Span> sources) {
  go_to(step.phase);
  switch (step.verb) {
    case Verb::copy:
      return builder_.copy(step.destination, sources.front());
    case Verb::put:
      return builder_.put(step.peer, step.destination, sources.front());
    case Verb::signal:
      return builder_.signal(step.peer);
    case Verb::wait:
      return builder_.wait(step.peer);
    case Verb::reduce:
      return step.completes ? builder_.complete(step.destination, sources)
                            : builder_.reduce(step.destination, sources);
  }
}

void StepRecorder::go_to(int phase) {
  if (phase < phase_)
    throw InvalidArgument("a step of phase " + std::to_string(phase) + " follows one of phase " +
                          std::to_string(phase_) + ": put steps in the order of their phases");
  for (; phase_ < phase; ++phase_) builder_.next_phase();
}

Schedule StepRecorder::build(int phases) && {
  go_to(phases - 1);
  return std::move(builder_).build();
}

}  // namespace capstan
