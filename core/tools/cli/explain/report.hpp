// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "core/tools/cli/explain/question.hpp"

namespace capstan::cli {

/// The answer for people: what is chosen and why, then every candidate.
std::string to_text(const Question& question, const Survey& survey);
/// The same for programs. Times are microseconds.
nlohmann::json to_json(const Question& question, const Survey& survey);
/// The steps of the chosen schedule on one rank, a line each.
std::string schedule_text(const Question& question, const Choice& choice, Rank rank);
inline constexpr int most_drawn = 32;  ///< ranks of a drawing

/// The chosen programs of all ranks over time, as a drawing in SVG, with the critical path: the
/// operations that would have to be faster for the call to end earlier.
std::string space_time_svg(const Question& question, const Choice& choice);

}  // namespace capstan::cli
