// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

// The parts of a page besides its data, as parts of the program.

namespace capstan::report::embedded {

extern const std::string_view page_css, page_js;
extern const std::string_view chart_js;  ///< Chart.js; empty in a build without it

}  // namespace capstan::report::embedded
