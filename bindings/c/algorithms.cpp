// SPDX-License-Identifier: Apache-2.0

// Algorithms that the program adds.

#include "bindings/c/handles.hpp"
#include "capstan/custom_algorithm.hpp"

using namespace capstan::c;

capstan_status capstan_algorithm_from_json(const char* json, const char* source,
                                           capstan_collective* collective, char** name) {
  return guarded([&] {
    const auto added =
        capstan::add_schedule_text(&required(json, "json"), source ? source : "json");
    if (collective) *collective = static_cast<capstan_collective>(added.first);
    if (name) *name = copy_of(added.second);
  });
}

capstan_status capstan_add_schedules(const char* paths) {
  return guarded([&] { capstan::add_schedules(&required(paths, "paths")); });
}
