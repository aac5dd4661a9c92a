// SPDX-License-Identifier: Apache-2.0
#include "core/engine/messages/message_ways.hpp"

namespace capstan {

/// In a round each way takes its turn, several times.
MessageWay MessageWays::next(std::uint64_t bytes) {
  Class& known = classes_[class_of(bytes)];
  if (known.left > 0) {
    --known.left;
    return known.best;
  }
  return static_cast<MessageWay>(known.begun++ % ways_);
}

/// The least time of a way counts: what else the sender does lengthens some.
void MessageWays::note(std::uint64_t bytes, MessageWay way, Time took) {
  Class& known = classes_[class_of(bytes)];
  if (known.left > 0) return;
  Time& least = known.least[static_cast<std::size_t>(way)];
  least = std::min(least, took);
  if (++known.noted == ways_ * tries) decide(known);
}

/// Another way has to be faster by a tenth. As long as none is, rounds come ever more rarely. A way
/// whose messages nobody has timed counts as the slowest.
void MessageWays::decide(Class& known) {
  const auto of = [&](MessageWay way) { return known.least[static_cast<std::size_t>(way)]; };
  const auto fastest =
      static_cast<MessageWay>(std::ranges::min_element(known.least) - known.least.begin());
  const bool changes = of(fastest) < of(known.best) / 10 * 9;
  if (changes) known.best = fastest;
  known.pause = changes ? shortest_pause : std::min(2 * known.pause, longest_pause);
  known.left = known.pause;
  known.begun = known.noted = 0;
  known.least = filled(Time::max());
}

}  // namespace capstan
