// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "capstan/blocks.hpp"
#include "capstan/collective.hpp"

namespace capstan {

/// The blocks that ranks send each other in an all-to-all: equal for all pairs, or by counts.
class AllToAllBlocks {
 public:
  AllToAllBlocks(const Shape& shape, int ranks)
      : shape_(shape),
        ranks_(ranks),
        contract_(shape.counts.empty() ? Collective::all_to_all : Collective::all_to_all_v, shape_,
                  ranks),
        largest_output_(contract_.largest_output()) {}
  AllToAllBlocks(const AllToAllBlocks&) = delete;

  int ranks() const { return ranks_; }
  /// How a rank's input is cut, one block for each receiver; and its output, one for each sender.
  Blocks input(int position) const { return *contract_.input_blocks(position); }
  Blocks output(int position) const { return *contract_.output_blocks(position); }
  /// The range in the output of `to` that the block of `from` fills.
  Range place(int from, int to) const { return output(to)[from]; }
  Elements largest_output() const { return largest_output_; }

 private:
  const Shape& shape_;
  int ranks_;
  Contract contract_;
  Elements largest_output_;
};

}  // namespace capstan
