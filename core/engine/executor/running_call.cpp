// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/running_call.hpp"

namespace capstan {

RunningCall::RunningCall(Peers& peers) {
  const int ranks = peers.count();
  bases.resize(BoundOperand::writable_alias(Rank{ranks}, ranks));
  for (const Rank rank : all_ranks(ranks)) {  // this rank writes to its own segment alone
    bases[BoundOperand::segment_of(rank)] = const_cast<std::byte*>(peers.segment(rank));
    bases[BoundOperand::writable_alias(rank, ranks)] =
        const_cast<std::byte*>(peers.segment_for_long_reads(rank));
  }
  bases[BoundOperand::segment_of(peers.self())] = peers.own_segment();
}

}  // namespace capstan
