// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/lowering/slots.hpp"

namespace capstan {
namespace {

Bytes whole_pages(Bytes bytes) {
  constexpr std::uint64_t page = 4096;
  return Bytes{(bytes.value() + page - 1) / page * page};
}

}  // namespace

SlotLayout::SlotLayout(int ranks, Bytes staging_region, const SlotPool& pool) : pool_(pool) {
  pool_.region.staging = whole_pages(staging_region);
  if (ranks == 1) pool_.region = {};
}

Bytes SlotLayout::room_for_places() const {
  constexpr Bytes in_all{2 << 20};
  const std::uint64_t slots = count(SlotKind::staging);
  return slots == 0 ? Bytes{} : std::min(region(SlotKind::staging), in_all / slots);
}

Bytes SlotLayout::bytes(SlotKind kind) const {
  return whole_pages(between_regions(kind) * staging_regions);
}

Bytes SlotLayout::offset(SlotKind kind, int slot) const {
  Bytes begin;
  for (const SlotKind before : all_slot_kinds)
    if (before < kind) begin += bytes(before);
  return begin + region(kind) * static_cast<std::uint64_t>(slot);
}

SlotRotation::SlotRotation(const SlotLayout& layout, Bytes begin) {
  for (const SlotKind kind : all_slot_kinds) {
    const int count = layout.pool().count[kind];
    kinds_[static_cast<std::size_t>(kind)] = {slots_.size(), static_cast<std::size_t>(count)};
    for (int i = 0; i < count; ++i)
      slots_.push_back({.offset = (begin + layout.offset(kind, i)).value()});
  }
}

const SlotReaders& SlotRotation::nobody() {
  static const auto& none = *new SlotReaders{std::make_shared<const std::vector<Rank>>()};
  return none;
}

FinishNotices::FinishNotices(int ranks, const SlotPool& pool)
    : pool_(pool), read_(ranks), told_(ranks) {}

}  // namespace capstan
