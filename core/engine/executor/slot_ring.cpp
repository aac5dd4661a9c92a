// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/slot_ring.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

namespace capstan {
namespace {

void populate(const std::byte* segment, Bytes begin, Bytes length, int advice) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t first = begin.value() / page * page;
  ::madvise(const_cast<std::byte*>(segment) + first, (begin + length).value() - first, advice);
}

/// Whether the slots of the plan are mapped at once: those that so many calls take in turn, slots
/// or places in them, that most calls of a trial would be the first to use theirs.
bool maps_slots(const Plan& plan) {
  return is_small(plan.slots) || plan.places.count > 1;
}
/// Whether that holds for a region of such slots, too: few calls use the second regions of small
/// packets, which are long.
// measured: docs/lab-notebook.md#slots-that-are-mapped-at-once
bool maps_at_once(SlotKind kind, std::size_t region) {
  return region == 0 || kind != SlotKind::small_packets;
}

}  // namespace

SlotRing::SlotRing(Peers& peers, const SegmentLayout& layout, CallLog& log, const ArrivalPoll& poll)
    : peers_(peers),
      layout_(layout),
      log_(log),
      poll_(poll),
      finished_(control_of(peers.own_segment()).finished),
      rotation_(layout.slots(), layout.first_slot()),
      notices_(peers.count(), layout.slots().pool()),
      known_finished_(peers.count()),
      mapped_regions_of_peers_(peers.count()) {}

void SlotRing::map_pages(const Plan& plan) {
  if (!maps_pages()) return;
  map_control_pages();
  if (!maps_slots(plan)) return;
  for (std::size_t region = 0; region < staging_regions; ++region) {
    const auto writes = [&](const BoundProgram& program) {
      return program.source.staging[region] > Elements{};
    };
    if (maps_at_once(plan.slots, region) && std::ranges::any_of(plan.programs, writes))
      map_region(plan.slots, region);
  }
}

/// Each process has page tables of its own, with entries for each mapping of a segment.
// measured: docs/lab-notebook.md#pages-of-readers
void SlotRing::map_pages_of_peers(const Plan& plan) {
  if (!maps_pages() || !maps_slots(plan)) return;
  for (const BoundProgram& program : plan.programs)
    for (const BoundOperand& operand : program.operands)
      if (operand.in_staging() && operand.owner != peers_.self() && peers_.mapped(operand.owner))
        map_region_of_peer(plan.slots, operand);
}

void SlotRing::map_region_of_peer(SlotKind kind, const BoundOperand& operand) {
  const Bytes length = layout_.slots().between_regions(kind);
  const std::size_t region = operand.offset / length.value();
  const bool by_alias = operand.base != BoundOperand::segment_of(operand.owner);
  bool& is_mapped = mapped_regions_of_peers_[operand.owner][by_alias ? 1 : 0]
                                            [static_cast<std::size_t>(kind)][region];
  if (!maps_at_once(kind, region) || std::exchange(is_mapped, true)) return;
  populate_region(
      by_alias ? peers_.segment_for_long_reads(operand.owner) : peers_.segment(operand.owner), kind,
      region, MADV_POPULATE_READ);
}

// measured: docs/lab-notebook.md#first-fifty-calls
void SlotRing::map_pages_of_tiny_slots() {
  if (!maps_pages()) return;
  map_control_pages();
  for (const SlotKind kind : {SlotKind::tiny_packets, SlotKind::tiny_staging})
    for (std::size_t region = 0; region < staging_regions; ++region) map_region(kind, region);
}

/// Among many ranks most pages would stay unused.
bool SlotRing::maps_pages() const {
  constexpr int many = 16;
  return peers_.count() <= many;
}

/// The pages before the slots hold what each call writes, whatever its kind.
void SlotRing::map_control_pages() {
  if (!std::exchange(is_control_mapped_, true))
    populate(peers_.own_segment(), {}, layout_.first_slot(), MADV_POPULATE_WRITE);
}

Bytes SlotRing::begin_of(SlotKind kind, std::size_t region) const {
  const SlotLayout& slots = layout_.slots();
  return layout_.first_slot() + slots.offset(kind, 0) + slots.between_regions(kind) * region;
}

void SlotRing::map_region(SlotKind kind, std::size_t region) {
  if (!std::exchange(mapped_regions_[static_cast<std::size_t>(kind)][region], true))
    populate_region(peers_.own_segment(), kind, region, MADV_POPULATE_WRITE);
}

/// Long slots are populated only where places may be.
void SlotRing::populate_region(const std::byte* segment, SlotKind kind, std::size_t region,
                               int advice) {
  const SlotLayout& slots = layout_.slots();
  const Bytes begin = begin_of(kind, region);
  if (kind != SlotKind::staging)
    return populate(segment, begin, slots.between_regions(kind), advice);
  for (int slot = 0; slot < slots.pool().count.staging; ++slot)
    populate(segment, begin + slots.region(kind) * static_cast<std::uint64_t>(slot),
             slots.room_for_places(), advice);
}

/// Polls briefly until the reader has finished the block that was last written to the current slot.
bool SlotRing::finishes(Rank reader) {
  std::uint64_t& known = known_finished_[reader];
  const Finished& theirs = peers_.control(reader).finished;
  const auto has_finished = [&] {
    return (known = theirs.blocks.load(std::memory_order_acquire)) >= slot_->must_finish;
  };
  if (!has_finished() && !poll_.until(reader, has_finished)) return false;
  log_.compare(reader, theirs);
  return true;
}

std::vector<Rank> SlotRing::unfinished_readers() const {
  std::vector<Rank> ranks;
  for (const Rank reader : *slot_->readers)
    if (peers_.control(reader).finished.blocks.load(std::memory_order_acquire) < slot_->must_finish)
      ranks.push_back(reader);
  return ranks;
}

void SlotRing::finish_block(const Plan& plan, std::uint64_t block) {
  const std::uint64_t blocks = first_block() + block + 1;
  publish(blocks);
  notices_.note_read(plan.remote_writers, blocks);
  tell_writers();
}

/// Sends notices to writers on other hosts, which need them before they write to the slots again.
void SlotRing::tell_writers() {
  for (const Rank peer : peers_.posted()) {
    if (!notices_.is_due(peer, finished_.blocks.load(std::memory_order_relaxed))) continue;
    peers_.show(peer, finished_);
    peers_.wake(peer);
  }
}

}  // namespace capstan
