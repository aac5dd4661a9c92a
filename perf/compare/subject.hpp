// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "capstan/collective.hpp"
#include "perf/measure/message_patterns.hpp"

namespace capstan::perf {

/// The work that cells of a comparison time: a collective, or messages between pairs of ranks.
struct Subject {
  Collective collective{};
  bool in_place = false;  ///< also where programs usually pass two buffers
  MessagePattern messages = MessagePattern::none;

  bool is_collective() const { return messages == MessagePattern::none; }
  bool operator==(const Subject&) const = default;
};

/// Whether all libraries leave the results of a call in place where Capstan does.
constexpr bool comparable_in_place(Collective collective) {
  using enum Collective;
  return collective == all_reduce || collective == reduce || collective == all_gather ||
         collective == all_to_all || collective == scan || collective == exscan;
}

/// "all_reduce", "all_reduce in place", "latency".
inline std::string name_of(const Subject& subject) {
  if (!subject.is_collective()) return std::string{name_of(subject.messages)};
  return std::string{name_of(subject.collective)} + (subject.in_place ? " in place" : "");
}

}  // namespace capstan::perf
