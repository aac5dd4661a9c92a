// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "algorithms/registry.hpp"
#include "capstan/version.hpp"
#include "core/profiles/profile.hpp"

// Measured times that are made up.

namespace capstan {

inline Call all_reduce(std::uint64_t bytes) {
  return {.shape = {.count = Elements{bytes / 4}}};
}

inline MeasuredWay way(const char* algorithm, Protocol protocol, double microseconds) {
  return {&algorithm_named(Collective::all_reduce, algorithm), protocol, 1, microseconds * 1000,
          0.1};
}

inline MeasuredCell cell(std::uint64_t bytes, std::vector<MeasuredWay> ways) {
  return {Collective::all_reduce, 4, 1, Bytes{bytes}, 0.9, std::move(ways)};
}

inline Profile small_profile() {
  Profile profile{std::string{version()}, Fingerprint::of(Machine::discover()), {}};
  MeasuredGroup& group = profile.group(4, 1, "");
  group.date = "2026-11-25T06:00:00Z";
  group.cells = {
      cell(1024, {way("flat", Protocol::staged, 1), way("direct", Protocol::staged, 4)})};
  return profile;
}

}  // namespace capstan
