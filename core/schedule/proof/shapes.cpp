// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/proof/shapes.hpp"

namespace capstan {

std::vector<Elements> unlike_counts(Collective collective, int ranks, int largest) {
  std::vector<Elements> counts;
  const int rows = collective == Collective::all_to_all_v ? ranks : 1;
  for (int i = 0; i < rows * ranks; ++i)
    counts.emplace_back(static_cast<std::uint64_t>((i * 7 + i / ranks * 3 + 2) % (largest + 1)));
  return counts;
}

std::vector<Shape> awkward_sizes(Collective collective, int ranks) {
  const auto p = static_cast<std::uint64_t>(ranks);
  if (collective == Collective::barrier) return {Shape{}};
  if (has_counts(collective)) {
    auto alone = unlike_counts(collective, ranks, 0);
    alone[alone.size() / 2] = Elements{5};
    if (ranks > 17) return {{.counts = unlike_counts(collective, ranks, 2)}};
    return {{.counts = unlike_counts(collective, ranks, 0)},
            {.counts = unlike_counts(collective, ranks, 4)},
            {.counts = alone}};
  }
  std::vector<std::uint64_t> counts{0, 1, 2, p - 1, p, p + 1, 2 * p + 1, 67};
  const bool has_blocks =
      Contract{collective, Shape{.count = Elements{1}}, 2}.extent() > Elements{1};
  if (has_blocks) counts = {0, 1, 3};
  if (ranks > 17)
    counts = has_blocks ? std::vector<std::uint64_t>{1} : std::vector{std::uint64_t{1}, p + 1};
  std::vector<Shape> shapes;
  for (const std::uint64_t count : counts) shapes.push_back({.count = Elements{count}});
  return shapes;
}

std::vector<int> roots_of(Collective collective, int ranks) {
  if (!has_root(collective)) return {0};
  if (ranks > 8) return {0, ranks / 2 - 1, ranks - 1};
  std::vector<int> roots;
  for (int root = 0; root < ranks; ++root) roots.push_back(root);
  return roots;
}

std::vector<Shape> awkward_shapes(Collective collective, int ranks) {
  std::vector<Shape> shapes;
  for (Shape& shape : awkward_sizes(collective, ranks))
    for (const int root : roots_of(collective, ranks)) {
      shape.root = root;
      shapes.push_back(shape);
    }
  return shapes;
}

}  // namespace capstan
