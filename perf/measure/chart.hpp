// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "perf/measure/measure.hpp"
#include "perf/report/origin.hpp"
#include "perf/report/page.hpp"

namespace capstan::perf {

/// Where a size lies on a logarithmic axis, in bytes: 0 lies at 1.
double place_of(Bytes size);

/// The line with this name, which is added if there is none.
report::Line& line_named(std::vector<report::Line>& lines, const std::string& name);

/// Time over size, and beside it bus bandwidth, which is computed from `times`: points by bytes, in
/// microseconds. `share` is busbw / algbw; 0: there are no bandwidths. `alone` are times of calls
/// that are not in a row, with a diagram of their own unless there are none.
report::Figure times_and_bandwidths(std::string title, double share,
                                    std::vector<report::Line> times,
                                    std::vector<report::Line> alone,
                                    std::vector<report::Taken> taken);

/// The measurements of one collective as an HTML page: a line for each type and operation.
std::string chart_page(const std::vector<Measurement>& measurements, const report::Facts& facts);

}  // namespace capstan::perf
