// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "algorithms/registry.hpp"

namespace capstan {

/// An algorithm in the protocols that rules can name: as the selector likes, staged, and in peers'
/// buffers where it can.
inline std::vector<std::string> variants_of(const Algorithm& algorithm) {
  const std::string name{algorithm.name};
  std::vector<std::string> variants{name};
  if (algorithm.traffic != Traffic::partials)
    variants.insert(variants.end(), {name + "/staged", name + "/read_input"});
  if (algorithm.traffic >= Traffic::outputs) variants.push_back(name + "/read_buffers");
  if (algorithm.traffic == Traffic::results) variants.push_back(name + "/write_output");
  return variants;
}

/// The same in protocols for short messages only.
inline std::vector<std::string> packet_variants_of(const Algorithm& algorithm) {
  if (has_counts(algorithm.collective)) return {};
  const std::string name{algorithm.name};
  return {name + "/inline_packets", name + "/shared_inline_packets"};
}

/// Sizes from nothing to many blocks; protocols with counts get unlike ones.
inline std::vector<Shape> shapes_of(Collective collective, int ranks) {
  std::vector<Shape> shapes;
  for (const int n : {0, 1, 3, 14, 15, 100, 1000, 5003, 40001}) {
    Shape shape{.count = Elements{static_cast<std::uint64_t>(n)}};
    if (has_counts(collective)) {
      const int lengths = collective == Collective::all_to_all_v ? ranks * ranks : ranks;
      for (int i = 0; i < lengths; ++i)
        shape.counts.emplace_back(static_cast<std::uint64_t>(n) * ((i * 7 + 3) % 5) / 4);
      shape.count = Elements{0};
    }
    if (collective == Collective::barrier) shape.count = Elements{0};
    shapes.push_back(shape);
  }
  return shapes;
}

}  // namespace capstan
