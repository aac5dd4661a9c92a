// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/tools/cli/explain/question.hpp"
#include "perf/report/origin.hpp"

namespace capstan::cli {

/// The answer as an HTML page: candidates with their predicted and measured times, and the chosen
/// schedule as a space-time diagram, where there are few enough ranks to draw one.
std::string chart_page(const Question& question, const Survey& survey, const report::Facts& facts);

}  // namespace capstan::cli
