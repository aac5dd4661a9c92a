// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/combiner.hpp"

#include <algorithm>

namespace capstan {
namespace {

/// A tile is a part of a result that goes to memory of peers by way of the cache. A tile and its
/// sources fit the first-level cache. Tiles of a streamed result are longer, as each ends with a
/// fence.
// measured: docs/lab-notebook.md#tile-bytes
constexpr std::uint64_t tile_bytes = 16 << 10, streamed_tile_bytes = 64 << 10;

/// From this length on a result is written in tiles; see combine_in_tiles().
// measured: docs/lab-notebook.md#worth-tiles
constexpr std::uint64_t worth_tiles = 2 << 10;

}  // namespace

void Combiner::combine(const RunningCall& call, const HostOp& op, std::byte* to, std::byte* second,
                       std::uint64_t count, bool for_peers) {
  const std::uint64_t bytes = count * call.plan->element.value();
  if (op.is_copy()) {
    // A copy in place has nothing to do, and must not write what peers may be reading.
    if (to != call.sources[0]) kernels::copy(to, call.sources[0], bytes, op.streams);
    return;
  }
  const bool overwrites_lines_of_peers = second || (for_peers && !op.streams);
  if (overwrites_lines_of_peers && bytes >= worth_tiles)
    return combine_in_tiles(call, op, to, second, count);
  reduce(call, op,
         {.destination = to,
          .second_destination = second,
          .sources = call.sources.data(),
          .source_count = op.source_count,
          .element_count = count,
          .stream_destination = op.streams});
}

/// A write to cache lines that peers have read needs exclusive ownership of each line. The stores
/// of a reduction request ownership line by line. A long copy (`rep movsb`) gains it several times
/// as fast, as it does not need the old contents of the lines. A result is therefore computed in
/// the cache and copied to the memory that peers read, tile by tile.
void Combiner::combine_in_tiles(const RunningCall& call, const HostOp& op, std::byte* to,
                                std::byte* second, std::uint64_t count) {
  const std::uint64_t room = op.streams || op.copy_streams ? streamed_tile_bytes : tile_bytes;
  tile_.resize(streamed_tile_bytes / sizeof(CacheLine));
  auto* const staged = reinterpret_cast<std::byte*>(tile_.data());
  tile_sources_.resize(op.source_count);
  const std::uint64_t element = call.plan->element.value(), tile = room / element;
  for (std::uint64_t first = 0; first < count; first += tile) {
    const std::uint64_t length = std::min(tile, count - first), at = first * element;
    for (std::uint32_t i = 0; i < op.source_count; ++i)
      tile_sources_[i] = static_cast<const std::byte*>(call.sources[i]) + at;
    // A streamed result is not in the cache: the copy to `second` then reads a staged tile.
    std::byte* const result = op.streams || !op.is_for_peers ? to + at : staged;
    std::byte* const cached = op.streams ? staged : result;
    reduce(call, op,
           {.destination = result,
            .second_destination = cached != result ? cached : nullptr,
            .sources = tile_sources_.data(),
            .source_count = op.source_count,
            .element_count = length,
            .stream_destination = op.streams,
            .following = count - first - length});
    if (result != to + at) kernels::copy(to + at, result, length * element, false);
    if (second) kernels::copy(second + at, cached, length * element, op.copy_streams);
  }
}

void Combiner::reduce(const RunningCall& call, const HostOp& op, kernels::Reduction reduction) {
  reduction.divisor = op.divisor;
  reduction.context = &call.plan->user;
  reduction.fetch_ahead = op.from_memory;
  call.plan->reduce(reduction);
}

}  // namespace capstan
