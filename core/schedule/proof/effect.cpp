// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/proof/effect.hpp"

#include <cstddef>

namespace capstan::proof {

std::string_view name_of(Flaw flaw) {
  constexpr std::string_view names[] = {"deadlock",
                                        "imbalance",
                                        "race",
                                        "out of range",
                                        "uninitialized read",
                                        "input written",
                                        "missing contribution",
                                        "double contribution",
                                        "misplaced contribution",
                                        "unfinished",
                                        "completed though no sum over all",
                                        "reduced after completion",
                                        "out of order",
                                        "unlike sums",
                                        "unsynchronized",
                                        "wrong extents",
                                        "wrong phases",
                                        "no such rank"};
  return names[static_cast<std::size_t>(flaw)];
}

std::string to_string(const Memory& memory) {
  constexpr std::string_view names[] = {"input", "output", "scratch", "staging", "packets"};
  return rank_name(memory.owner) + " " + std::string{names[static_cast<std::size_t>(memory.kind)]} +
         (memory.viewer ? " as seen by " + rank_name(*memory.viewer) : "");
}

std::string rank_name(Rank rank) {
  return "rank " + std::to_string(rank.value());
}

}  // namespace capstan::proof
