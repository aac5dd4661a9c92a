// SPDX-License-Identifier: Apache-2.0
#include "core/platform/device/program_memory.hpp"

#include <algorithm>
#include <bit>
#include <iterator>

namespace capstan {
namespace {

/// Pieces begin on cache lines of devices.
constexpr std::uint64_t rounded(Bytes size) {
  constexpr std::uint64_t line = 128;
  return std::max<std::uint64_t>((size.value() + line - 1) / line, 1) * line;
}

}  // namespace

ProgramMemory::ProgramMemory(DeviceBlocks& blocks) : blocks_(blocks) {
  grow(first_programs);
  shared(first_shared);
}

void ProgramMemory::grow(Bytes least) {
  const Bytes size{std::max(std::bit_ceil(least.value()), first_programs.value())};
  chunks_.push_back({.device = DeviceBlock{blocks_.where(), size},
                     .host = blocks_.pinned().allocate(size),
                     .free = {{0, size.value()}}});
}

std::optional<ProgramMemory::Piece> ProgramMemory::take(Bytes size) {
  const std::uint64_t length = rounded(size);
  for (std::size_t i = 0; i < chunks_.size(); ++i)
    if (const auto at = take(chunks_[i], length))
      return Piece{chunks_[i].device.data() + *at, chunks_[i].host.data() + *at, Bytes{length}, i};
  return std::nullopt;
}

/// From the first part that is long enough.
std::optional<std::uint64_t> ProgramMemory::take(Chunk& chunk, std::uint64_t size) {
  const auto found =
      std::ranges::find_if(chunk.free, [&](const auto& part) { return part.second >= size; });
  if (found == chunk.free.end()) return std::nullopt;
  const auto [at, length] = *found;
  chunk.free.erase(found);
  if (length > size) chunk.free.emplace(at + size, length - size);
  return at;
}

void ProgramMemory::give_back(const Piece& piece) {
  Chunk& chunk = chunks_[piece.chunk];
  const auto at = static_cast<std::uint64_t>(piece.device - chunk.device.data());
  auto part = chunk.free.emplace(at, piece.size.value()).first;
  if (const auto next = std::next(part);
      next != chunk.free.end() && next->first == at + part->second) {
    part->second += next->second;
    chunk.free.erase(next);
  }
  if (part == chunk.free.begin()) return;
  const auto before = std::prev(part);
  if (before->first + before->second != at) return;
  before->second += part->second;
  chunk.free.erase(part);
}

/// Sizes are rounded up, so that memory is allocated rarely.
std::byte* ProgramMemory::shared(Bytes size) {
  for (const DeviceBlock& block : shared_)
    if (block.size() >= size) return block.data();
  shared_.emplace_back(blocks_.where(), Bytes{std::bit_ceil(size.value())});
  return shared_.back().data();
}

void ProgramMemory::keep_for_good() {
  for (Chunk& chunk : chunks_) {
    chunk.device.keep_for_good();
    capstan::keep_for_good(std::make_shared<PinnedMemory::Handle>(std::move(chunk.host)));
  }
  for (DeviceBlock& block : shared_) block.keep_for_good();
}

}  // namespace capstan
