#include "core/engine/executor/running_call.hpp"

namespace capstan {

RunningCall::RunningCall(Peers& peers) {
  const int ranks = peers.count();
  bases.resize(BoundOperand::writable_alias(ranks, ranks));
  for (int rank = 0; rank < ranks; ++rank) {  // this rank writes to its own segment alone
    bases[BoundOperand::segment_of(rank)] = const_cast<std::byte*>(peers.segment(Rank{rank}));
    bases[BoundOperand::writable_alias(rank, ranks)] =
        const_cast<std::byte*>(peers.segment_for_long_reads(Rank{rank}));
  }
  bases[BoundOperand::segment_of(peers.self().value())] = peers.own_segment();
}

}  // namespace capstan
