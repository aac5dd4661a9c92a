// How the executor computes and copies, and how what comes of it gets to memory that peers read.

#include <algorithm>

#include "core/engine/executor/host_executor.hpp"

namespace capstan {
namespace {

/// Results on their way to a staging buffer or to a peer: what fits the cache nearest to the core,
/// beside the sources. What is streamed ends with a fence, which should not come too often.
constexpr std::uint64_t tile_bytes = 16 << 10, streamed_tile_bytes = 64 << 10;

/// From here on copies take whole lines at once; see combine_in_tiles().
constexpr std::uint64_t worth_tiles = 2 << 10;

}  // namespace

bool Executor::gather(const BoundOp& op) {
  const BoundOperand* const destinations = &program_->operands[op.first_operand];
  const BoundOperand* const sources = destinations + op.destination_count;
  for (std::uint32_t i = 0; i < op.source_count; ++i) sources_[i] = address(sources[i]);
  combine(op, address(destinations[0]),
          op.destination_count == 2 ? address(destinations[1]) : nullptr, op.count);
  return true;
}

/// `count` elements of the operation, from sources_. What peers do not see goes to pieces_ first.
void Executor::combine(const BoundOp& op, std::byte* to, std::byte* second, std::uint64_t count) {
  if (op.is_copy()) {
    // In place there is nothing to do, and peers may be reading.
    if (to != sources_[0])
      kernels::copy(to, sources_[0], count * plan_->element.value(), op.streams);
    return;
  }
  const bool for_peers = op.is_for_peers && to != pieces_.data();
  const bool taken_back = second || (for_peers && !op.streams);
  if (taken_back && count * plan_->element.value() >= worth_tiles)
    return combine_in_tiles(op, to, second, count);
  reduce(op, {.destination = to,
              .second_destination = second,
              .sources = sources_.data(),
              .source_count = op.source_count,
              .element_count = count,
              .stream_destination = op.streams});
}

/// Lines that a peer has read have to be taken back from it, one by one by the stores of a
/// reduction, several times as fast by a long copy (`rep movsb`), which need not know what was in
/// them. So a result gets to where peers read it by a copy, tile by tile out of the cache.
void Executor::combine_in_tiles(const BoundOp& op, std::byte* to, std::byte* second,
                                std::uint64_t count) {
  const std::uint64_t room = op.streams ? streamed_tile_bytes : tile_bytes;
  tile_.resize(streamed_tile_bytes / sizeof(Line));
  auto* const staged = reinterpret_cast<std::byte*>(tile_.data());
  tile_sources_.resize(op.source_count);
  const std::uint64_t element = plan_->element.value(), tile = room / element;
  for (std::uint64_t first = 0; first < count; first += tile) {
    const std::uint64_t length = std::min(tile, count - first), at = first * element;
    for (std::uint32_t i = 0; i < op.source_count; ++i)
      tile_sources_[i] = static_cast<const std::byte*>(sources_[i]) + at;
    // What is streamed is not in the cache to be copied from.
    std::byte* const result = op.streams || !op.is_for_peers ? to + at : staged;
    std::byte* const cached = op.streams ? staged : result;
    reduce(op, {.destination = result,
                .second_destination = cached != result ? cached : nullptr,
                .sources = tile_sources_.data(),
                .source_count = op.source_count,
                .element_count = length,
                .stream_destination = op.streams,
                .following = count - first - length});
    if (result != to + at) kernels::copy(to + at, result, length * element, false);
    if (second) kernels::copy(second + at, cached, length * element, false);
  }
}

void Executor::reduce(const BoundOp& op, kernels::Reduction reduction) {
  reduction.divisor = op.divisor;
  reduction.context = &plan_->user;
  reduction.fetch_ahead = op.from_memory;
  plan_->reduce(reduction);
}

}  // namespace capstan
