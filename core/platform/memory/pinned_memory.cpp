// SPDX-License-Identifier: Apache-2.0
#include "core/platform/memory/pinned_memory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#include "capstan/error.hpp"

namespace capstan {
namespace {

AddressRange whole_pages(AddressRange range) {
  return rounded_out(range, page_size());
}

}  // namespace

/// The state that the manager and its handles share. Memory is locked in disjoint pieces: one call
/// locks a piece, one call unlocks it, and a piece is never split.
struct PinnedMemory::State {
  State(std::unique_ptr<PageLocker> page_locker, Bytes most)
      : locker(std::move(page_locker)), limit(most) {}

  Handle allocate(const std::shared_ptr<State>& self, Bytes size);
  Handle pin(const std::shared_ptr<State>& self, AddressRange wanted);
  void give_back(AddressRange range) noexcept;
  void unpin(AddressRange range) noexcept;
  void close();

  std::mutex mutex;
  const std::unique_ptr<PageLocker> locker;
  const Bytes limit;
  Statistics statistics;

 private:
  struct Piece {
    AddressRange pages;
    std::size_t users = 1;  ///< handles: the owner of a block, or all that pin part of it
  };
  using Pieces = std::map<std::uintptr_t, Piece>;

  std::list<AddressRange>::iterator best_fit(Bytes size);
  template <class Visitor>
  void for_each_piece(AddressRange pages, Visitor visit);
  std::vector<AddressRange> gaps(AddressRange pages);
  void drop_user(AddressRange pages);
  void make_room(Bytes bytes);
  void evict_oldest();
  template <class Lock>
  void lock_or_make_room(const Lock& lock);
  void count(AddressRange pages);

  Pieces pieces_;
  std::list<AddressRange> unused_;  ///< blocks, least recently used first
  bool closed_ = false;             ///< the manager is destroyed, so that blocks are not reused
};

PinnedMemory::Handle PinnedMemory::State::allocate(const std::shared_ptr<State>& self, Bytes size) {
  const std::lock_guard lock{mutex};
  ++statistics.allocations;
  const Bytes pages = size > limit ? size : whole_pages({0, size.value()}).size();
  if (const auto fit = best_fit(pages); fit != unused_.end()) {
    const AddressRange block = *fit;
    unused_.erase(fit);
    statistics.unused -= block.size();
    ++statistics.reuses;
    return {self, {block.begin, block.begin + size.value()}, true};
  }
  make_room(pages);
  AddressRange block;
  lock_or_make_room([&] { block = locker->allocate(pages); });
  count(block);
  return {self, {block.begin, block.begin + size.value()}, true};
}

/// The smallest unused block that is large enough, but at most twice as large.
std::list<AddressRange>::iterator PinnedMemory::State::best_fit(Bytes size) {
  auto best = unused_.end();
  for (auto at = unused_.begin(); at != unused_.end(); ++at)
    if (size <= at->size() && at->size() <= size * 2 &&
        (best == unused_.end() || at->size() < best->size()))
      best = at;
  return best;
}

void PinnedMemory::State::give_back(AddressRange range) noexcept {
  const std::lock_guard lock{mutex};
  const AddressRange block = pieces_.at(range.begin).pages;
  unused_.push_back(block);
  statistics.unused += block.size();
  if (closed_) evict_oldest();
}

PinnedMemory::Handle PinnedMemory::State::pin(const std::shared_ptr<State>& self,
                                              AddressRange wanted) {
  const AddressRange pages = whole_pages(wanted);
  const std::lock_guard lock{mutex};
  ++statistics.pins;
  Bytes more{};
  for (const AddressRange gap : gaps(pages)) more += gap.size();
  for_each_piece(pages, [](Piece& piece) { ++piece.users; });
  try {
    make_room(more);
    for (const AddressRange gap : gaps(pages)) {
      lock_or_make_room([&] { locker->lock(gap); });
      count(gap);
    }
  } catch (...) {
    drop_user(pages);
    throw;
  }
  return {self, wanted, false};
}

void PinnedMemory::State::unpin(AddressRange range) noexcept {
  const std::lock_guard lock{mutex};
  drop_user(whole_pages(range));
}

void PinnedMemory::State::drop_user(AddressRange pages) {
  std::vector<AddressRange> over;
  for_each_piece(pages, [&](Piece& piece) {
    if (--piece.users == 0) over.push_back(piece.pages);
  });
  for (const AddressRange piece : over) {
    locker->unlock(piece);
    statistics.pinned -= piece.size();
    pieces_.erase(piece.begin);
  }
}

template <class Visitor>
void PinnedMemory::State::for_each_piece(AddressRange pages, Visitor visit) {
  auto at = pieces_.upper_bound(pages.begin);
  if (at != pieces_.begin()) --at;
  for (; at != pieces_.end() && at->first < pages.end; ++at)
    if (at->second.pages.overlaps(pages)) visit(at->second);
}

/// The parts that no piece covers.
std::vector<AddressRange> PinnedMemory::State::gaps(AddressRange pages) {
  std::vector<AddressRange> found;
  auto at = pages.begin;
  for_each_piece(pages, [&](const Piece& piece) {
    if (at < piece.pages.begin) found.push_back({at, piece.pages.begin});
    at = piece.pages.end;
  });
  if (at < pages.end) found.push_back({at, pages.end});
  return found;
}

void PinnedMemory::State::make_room(Bytes bytes) {
  const Bytes used = statistics.pinned - statistics.unused;
  if (bytes > limit || used > limit - bytes)
    throw LimitReached(fmt::format(
        "{} cannot be pinned: {} of at most {} are pinned and in use: give handles back, use "
        "shorter buffers, or raise the limit of PinnedMemory",
        readable(bytes), readable(used), readable(limit)));
  while (statistics.pinned > limit - bytes) evict_oldest();
}

void PinnedMemory::State::evict_oldest() {
  const AddressRange block = unused_.front();
  unused_.pop_front();
  pieces_.erase(block.begin);
  locker->deallocate(block);
  statistics.unused -= block.size();
  statistics.pinned -= block.size();
  ++statistics.evictions;
}

/// The system's limit may be lower than this manager's. Then unused blocks are evicted, too.
template <class Lock>
void PinnedMemory::State::lock_or_make_room(const Lock& lock) {
  for (;;) {
    try {
      return lock();
    } catch (const LimitReached&) {
      if (unused_.empty()) throw;
    }
    evict_oldest();
  }
}

void PinnedMemory::State::count(AddressRange pages) {
  pieces_.emplace(pages.begin, Piece{pages});
  statistics.pinned += pages.size();
  statistics.peak = std::max(statistics.peak, statistics.pinned);
}

void PinnedMemory::State::close() {
  const std::lock_guard lock{mutex};
  closed_ = true;
  while (!unused_.empty()) evict_oldest();
}

void PinnedMemory::Handle::reset() noexcept {
  const auto state = std::exchange(state_, nullptr);
  const auto range = std::exchange(range_, AddressRange{});
  if (!state) return;
  allocated_ ? state->give_back(range) : state->unpin(range);
}

PinnedMemory::PinnedMemory(std::unique_ptr<PageLocker> locker, Bytes limit)
    : state_(std::make_shared<State>(std::move(locker), limit)) {}

PinnedMemory::~PinnedMemory() {
  state_->close();
}

PinnedMemory::Handle PinnedMemory::allocate(Bytes size) {
  return size == Bytes{} ? Handle{} : state_->allocate(state_, size);
}

PinnedMemory::Handle PinnedMemory::pin(const void* address, Bytes length) {
  const AddressRange range = address_range(address, length, "pin memory");
  return range.empty() ? Handle{} : state_->pin(state_, range);
}

Bytes PinnedMemory::limit() const {
  return state_->limit;
}

PinnedMemory::Statistics PinnedMemory::statistics() const {
  const std::lock_guard lock{state_->mutex};
  return state_->statistics;
}

std::string_view PinnedMemory::locker() const {
  return state_->locker->name();
}

}  // namespace capstan
