// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "algorithms/registry.hpp"

// The names that schedule files have for what algorithms promise: one list for reader and writer.

namespace capstan {

inline constexpr std::string_view schedule_file_format = "capstan-schedule";

inline constexpr std::array<std::pair<std::string_view, bool Guarantees::*>, 4> guarantee_names{{
    {"synchronizes", &Guarantees::synchronizes},
    {"bounded_skew", &Guarantees::bounded_skew},
    {"ordered", &Guarantees::ordered},
    {"rank_ordered_sum", &Guarantees::rank_ordered_sum},
}};

/// In the order of Traffic.
inline constexpr std::array<std::string_view, 4> traffic_names{"partials", "inputs", "outputs",
                                                               "results"};

}  // namespace capstan
