// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/shared_memory.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "capstan/error.hpp"

namespace capstan::shared {

namespace {

Bytes half_of_the_host() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  return Bytes{pages / 2 * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))};
}

}  // namespace

SharedMemory::SharedMemory(Bytes limit) : limit_(limit > Bytes{0} ? limit : half_of_the_host()) {}

SharedMemory::Made SharedMemory::make(Bytes size, Kind kind) {
  reserve(size);
  Made made;
  try {
    // In this order: forget the address, free the memory, release its share of the limit.
    made.allocation = {new Allocation(size, kind),
                       [weak = weak_from_this(), size, process = OwnProcess{}](Allocation* own) {
                         // In a forked child another thread's lock may be held for ever.
                         const auto memory = process.is_this() ? weak.lock() : nullptr;
                         if (memory) memory->forget(own->bytes().data());
                         delete own;
                         if (memory) memory->release(size);
                       }};
  } catch (const Error&) {
    release(size);
    throw;
  }
  const std::lock_guard lock{mutex_};
  made.id = ++last_id_;
  return made;
}

void SharedMemory::reserve(Bytes size) {
  const std::lock_guard lock{mutex_};
  constexpr auto last = std::numeric_limits<AllocationId>::max();
  if (last_id_ == last)
    throw LimitReached(
        fmt::format("there have been {} allocations: start the program again", last));
  if (size > limit_ || used_ > limit_ - size)
    throw LimitReached(fmt::format(
        "{} bytes are in use of at most {}: allocate less, give back what is not needed, or raise "
        "CAPSTAN_BUFFER_LIMIT",
        used_.value(), limit_.value()));
  used_ += size;
}

void SharedMemory::release(Bytes size) {
  const std::lock_guard lock{mutex_};
  used_ -= size;
}

void SharedMemory::announce(const Made& made, std::vector<int> viewers) {
  const auto bytes = made.allocation->bytes();
  std::ranges::sort(viewers);
  const std::lock_guard lock{mutex_};
  own_[bytes.data()] = {made.id, bytes.size(), std::move(viewers)};
  has_own_.store(true, std::memory_order_relaxed);
}

void SharedMemory::forget(const std::byte* begin) {
  const std::lock_guard lock{mutex_};
  own_.erase(begin);
  has_own_.store(!own_.empty(), std::memory_order_relaxed);
}

/// Called with the mutex locked.
const SharedMemory::Own* SharedMemory::find(const void* begin, Bytes size) const {
  const auto* const first = static_cast<const std::byte*>(begin);
  auto found = own_.upper_bound(first);
  if (found == own_.begin()) return nullptr;
  --found;
  const auto offset = static_cast<std::uint64_t>(first - found->first);
  const bool inside = offset < found->second.size && size.value() <= found->second.size - offset;
  return inside ? &found->second : nullptr;
}

AllocationId SharedMemory::id_of(const void* begin, Bytes size) const {
  if (size == Bytes{0} || !has_own_.load(std::memory_order_relaxed)) return 0;
  const std::lock_guard lock{mutex_};
  const Own* const own = find(begin, size);
  return own ? own->id : 0;
}

bool SharedMemory::mapped_by(const std::vector<int>& ranks, const void* begin, Bytes size) const {
  if (size == Bytes{0}) return true;
  const std::lock_guard lock{mutex_};
  const Own* const own = find(begin, size);
  return own && std::ranges::all_of(ranks, [&](int rank) {
           return std::ranges::binary_search(own->viewers, rank);
         });
}

bool SharedMemory::add_view(int owner, const Announcement& theirs) {
  View view = View::of(theirs.process, theirs.descriptor, Bytes{theirs.size}, theirs.token);
  if (!view.valid()) return false;
  views_.insert_or_assign({owner, theirs.id}, SeenMemory{theirs.address, std::move(view)});
  return true;
}

void SharedMemory::drop_free_views() {
  std::erase_if(views_, [](const auto& entry) { return entry.second.view.is_free(); });
}

std::byte* SharedMemory::view(int owner, AllocationId id, std::uint64_t address, Bytes size) const {
  if (id == 0) return nullptr;
  const auto found = views_.find({owner, id});
  if (found == views_.end()) return nullptr;
  const auto& [begin, view] = found->second;
  const auto bytes = view.bytes();
  // An owner that moves its buffers may have published only one of address and allocation yet.
  if (address < begin || address - begin > bytes.size() ||
      size.value() > bytes.size() - (address - begin))
    return nullptr;
  return bytes.data() + (address - begin);
}

}  // namespace capstan::shared
