// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/choice_log.hpp"

#include <fmt/format.h>

#include "core/platform/net/log.hpp"

namespace capstan {

void log_choice(const Call& call, const Choice& choice, Rank self, bool is_candidate) {
  if (self != Rank{0} || call.purpose != Purpose::caller) return;
  if (!log().shows(is_candidate ? Log::Level::debug : Log::Level::info)) return;
  const auto text = fmt::format("{}{}: {} {}", to_string(call),
                                call.memory == MemoryKind::device ? " on devices" : "",
                                choice.algorithm->name, choice.manner());
  if (is_candidate)
    log().debug("{}, a candidate that is timed", text);
  else
    log().info("{}, {}", text, choice.reason);
}

}  // namespace capstan
