// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/nearest.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace capstan {
namespace {

/// The Levenshtein distance: the fewest insertions, deletions and replacements of letters.
std::size_t edit_distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);  // from the first letters of `from` to those of `to`
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replaced = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  const auto begins = [&](const std::string& name) { return name.starts_with(word); };
  if (std::ranges::count_if(names, begins) == 1) return *std::ranges::find_if(names, begins);
  const auto distance = [&](const std::string& name) { return edit_distance(word, name); };
  const auto best = std::ranges::min_element(names, {}, distance);
  const std::size_t most = std::min<std::size_t>(word.size() / 2, 2);
  return best == names.end() || distance(*best) > most ? "" : *best;
}

}  // namespace capstan
