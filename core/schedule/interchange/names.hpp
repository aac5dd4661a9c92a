// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "algorithms/registry.hpp"

// The names of algorithms, and those that schedule files have for what algorithms promise: one list
// for reader and writer.

namespace capstan {

inline constexpr std::string_view schedule_file_format = "capstan-schedule";

/// Empty, or why rules and lists, which have marks of their own, cannot hold this name of an
/// algorithm.
inline std::string why_no_name(std::string_view name) {
  constexpr std::string_view letters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
  if (!name.empty() && name.find_first_not_of(letters) == std::string_view::npos) return "";
  return fmt::format("'{}' is no name of an algorithm: use letters, digits and _ . - only", name);
}

inline constexpr std::array<std::pair<std::string_view, bool Guarantees::*>, 6> guarantee_names{{
    {"synchronizes", &Guarantees::synchronizes},
    {"bounded_skew", &Guarantees::bounded_skew},
    {"ordered", &Guarantees::ordered},
    {"left_fold", &Guarantees::left_fold},
    {"rank_ordered_sum", &Guarantees::rank_ordered_sum},
    {"host_ordered_sum", &Guarantees::host_ordered_sum},
}};

/// In the order of Traffic.
inline constexpr std::array<std::string_view, 4> traffic_names{"partials", "inputs", "outputs",
                                                               "results"};

}  // namespace capstan
