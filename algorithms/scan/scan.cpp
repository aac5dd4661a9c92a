// SPDX-License-Identifier: Apache-2.0
#include "algorithms/scan/scan.hpp"

#include <array>

#include "algorithms/declare.hpp"

namespace capstan {
namespace {

// The selector takes the first of two algorithms that promise the same.
const std::array list{
    Algorithm{"flat",
              Collective::scan,
              "everybody sends its input to all higher ranks: one step",
              &counted<flat_scan>,
              all_pairs,
              {.ordered = true, .rank_ordered_sum = true},
              Traffic::inputs},
    Algorithm{"recursive_doubling",
              Collective::scan,
              "log2(p) steps, each with twice the reach",
              &counted<recursive_doubling_scan>,
              any_size,
              {.ordered = true}},
    Algorithm{"chain",
              Collective::scan,
              "from rank to rank; long messages as a pipeline of blocks",
              &counted<chain_scan>,
              any_size,
              {.ordered = true, .left_fold = true}},
};

}  // namespace

std::span<const Algorithm> scan_algorithms() {
  return list;
}

}  // namespace capstan
