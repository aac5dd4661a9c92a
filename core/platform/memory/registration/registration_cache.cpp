// SPDX-License-Identifier: Apache-2.0
#include "core/platform/memory/registration/registration_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "capstan/error.hpp"
#include "core/platform/net/log.hpp"

namespace capstan {

AddressRange RegistrationCache::Lease::range() const {
  return entry_->range;
}
const MemoryKeys& RegistrationCache::Lease::keys() const {
  return entry_->keys;
}

void RegistrationCache::Lease::reset() noexcept {
  if (entry_ != nullptr) cache_->release(*std::exchange(entry_, nullptr));
}

RegistrationCache::RegistrationCache(Registrar& registrar, Limits limits,
                                     std::shared_ptr<MappingMonitor> monitor)
    : registrar_(registrar),
      limits_(limits),
      monitor_(std::move(monitor)),
      process_(::getpid()),
      log_position_(monitor_->log_end()) {}

RegistrationCache::~RegistrationCache() {
  if (!busy_.empty()) {
    log().critical(
        "a registration cache ends while {} of its registrations are in use: end the operations "
        "first",
        busy_.size());
    std::terminate();
  }
  while (!idle_.empty()) retire(idle_.front());
}

RegistrationCache::Lease RegistrationCache::acquire(const void* address, Bytes length) {
  const AddressRange wanted = address_range(address, length, "register memory");
  if (wanted.empty()) throw InvalidArgument("register memory: there is nothing to register");
  check_process();
  const std::lock_guard lock{mutex_};
  take_in_changes();
  Entry* entry = find(wanted);
  if (entry != nullptr) {
    ++statistics_.hits;
  } else {
    ++statistics_.misses;
    entry = &add(wanted);
  }
  lease(*entry);
  return {*this, *entry};
}

void RegistrationCache::check_process() const {
  if (::getpid() != process_)
    throw SystemError(fmt::format(
        "register memory: this process was forked from {}, whose registrations it does not have: "
        "create a communicator after fork()",
        process_));
}

void RegistrationCache::take_in_changes() {
  if (index_.empty()) {  // without the system call
    log_position_ = monitor_->log_end();
    return;
  }
  const bool known = monitor_->read_log(log_position_, [this](AddressRange changed) {
    retire_overlapping(changed, &Statistics::invalidations);
  });
  if (known) return;
  statistics_.invalidations += index_.size();
  while (!index_.empty()) retire(*index_.begin()->second);
}

/// The one registration that covers the range, or null.
RegistrationCache::Entry* RegistrationCache::find(AddressRange range) {
  auto next = index_.upper_bound(range.begin);
  if (next == index_.begin()) return nullptr;
  Entry& entry = *std::prev(next)->second;
  return entry.range.contains(range) ? &entry : nullptr;
}

RegistrationCache::Entry& RegistrationCache::add(AddressRange wanted) {
  Entries fresh(1);
  Entry& entry = fresh.front();
  entry.self = fresh.begin();
  entry.range = joined(rounded_out(wanted, page_size()));
  // Watching begins before registering, so that no change can come between the two.
  entry.watched = monitor_->watch(entry.range);
  if (entry.watched) {
    retire_overlapping(entry.range, &Statistics::replacements);
  } else {
    entry.range = rounded_out(wanted, page_size());
    ++statistics_.uncached;
  }
  try {
    make_room(entry.range.size());
    entry.keys = register_or_make_room(entry.range);
  } catch (...) {
    if (entry.watched) monitor_->unwatch(entry.range);
    throw;
  }
  if (entry.watched) index_.emplace(entry.range.begin, &entry);
  statistics_.bytes += entry.range.size();
  ++statistics_.count;
  idle_.splice(idle_.end(), fresh);
  return entry;
}

/// The range joined with all registrations that it overlaps, unless that exceeds the limit.
AddressRange RegistrationCache::joined(AddressRange wanted) const {
  AddressRange all = wanted;
  auto at = index_.upper_bound(wanted.begin);
  if (at != index_.begin()) --at;
  for (; at != index_.end() && at->first < wanted.end; ++at) {
    const Entry& entry = *at->second;
    if (!entry.range.overlaps(wanted)) continue;
    all = {std::min(all.begin, entry.range.begin), std::max(all.end, entry.range.end)};
  }
  return busy_bytes_ + all.size() <= limits_.bytes ? all : wanted;
}

/// The system may have a lower limit than this cache: then unused registrations are evicted.
MemoryKeys RegistrationCache::register_or_make_room(AddressRange range) {
  try {
    return registrar_.register_memory(range);
  } catch (const InvalidArgument&) {
    throw;
  } catch (const Error&) {
    if (idle_.empty()) throw;
  }
  while (!idle_.empty()) evict(idle_.front());
  return registrar_.register_memory(range);
}

void RegistrationCache::make_room(Bytes bytes) {
  if (busy_bytes_ + bytes > limits_.bytes || busy_.size() >= limits_.count)
    throw LimitReached(fmt::format(
        "register memory: {} do not fit in: {} in {} registrations are in use, of at most {} in "
        "{}: wait for operations to end, use shorter buffers, or raise the limit",
        readable(bytes), readable(busy_bytes_), busy_.size(), readable(limits_.bytes),
        limits_.count));
  while (statistics_.bytes + bytes > limits_.bytes || statistics_.count >= limits_.count)
    evict(idle_.front());
}

void RegistrationCache::lease(Entry& entry) {
  if (entry.leases++ > 0) return;
  busy_.splice(busy_.end(), idle_, entry.self);
  busy_bytes_ += entry.range.size();
}

void RegistrationCache::release(Entry& entry) noexcept {
  const std::lock_guard lock{mutex_};
  if (--entry.leases > 0) return;
  idle_.splice(idle_.end(), busy_, entry.self);
  busy_bytes_ -= entry.range.size();
  if (!entry.watched) deregister(entry);
}

/// Takes a watched entry out of the index, so that it is not found again.
void RegistrationCache::retire(Entry& entry) {
  index_.erase(entry.range.begin);
  entry.watched = false;
  monitor_->unwatch(entry.range);
  if (entry.leases == 0) deregister(entry);
}

void RegistrationCache::retire_overlapping(AddressRange range, std::uint64_t Statistics::* reason) {
  auto at = index_.upper_bound(range.begin);
  if (at != index_.begin()) --at;
  while (at != index_.end() && at->first < range.end) {
    Entry& entry = *(at++)->second;
    if (!entry.range.overlaps(range)) continue;
    retire(entry);
    ++(statistics_.*reason);
  }
}

void RegistrationCache::evict(Entry& entry) {
  retire(entry);
  ++statistics_.evictions;
}

/// Deregisters and frees an entry without a lease that is not in the index. A forked child leaves
/// its parent's registrations alone.
void RegistrationCache::deregister(Entry& entry) {
  if (::getpid() == process_) registrar_.deregister_memory(entry.keys);
  statistics_.bytes -= entry.range.size();
  --statistics_.count;
  idle_.erase(entry.self);
}

void RegistrationCache::invalidate(const void* address, Bytes length) {
  const AddressRange range = address_range(address, length, "invalidate memory");
  const std::lock_guard lock{mutex_};
  retire_overlapping(range, &Statistics::invalidations);
}

RegistrationCache::Statistics RegistrationCache::statistics() const {
  const std::lock_guard lock{mutex_};
  return statistics_;
}

}  // namespace capstan
