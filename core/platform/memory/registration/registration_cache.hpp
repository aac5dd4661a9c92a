// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/platform/memory/registration/address_range.hpp"
#include "core/platform/memory/registration/mapping_monitor.hpp"

namespace capstan {

/// The keys of registered memory, as the device gave them. Opaque to the cache.
struct MemoryKeys {
  void* handle = nullptr;  ///< an ibv_mr*, a fid_mr*, ...
  std::uint64_t local = 0;
  std::uint64_t remote = 0;
  std::uint64_t origin = 0;  ///< what peers subtract from an address of this memory
  bool operator==(const MemoryKeys&) const = default;
};

/// Registers memory with one device; verbs and libfabric each have one. The cache calls it with its
/// lock held: one thread at a time, and the registrar must not call the cache. Ranges begin and end
/// at pages.
class Registrar {
 public:
  virtual ~Registrar() = default;

  /// Throws InvalidArgument when the device cannot have this memory, another Error when the device
  /// or the system has no room.
  virtual MemoryKeys register_memory(AddressRange range) = 0;
  virtual void deregister_memory(const MemoryKeys& keys) noexcept = 0;
};

/// Registered memory, kept between operations because registering costs far more than sending.
///
/// The cache keeps a registration only while the kernel watches the memory (MappingMonitor): the
/// cache then learns when other memory takes the same addresses. All other memory is registered for
/// one lease and deregistered at the lease's end. The cache never gives out a stale registration,
/// and deregisters it at the next call or when its last lease ends.
///
/// Overlapping registrations are replaced by one that covers them: cached ones are disjoint.
/// At a limit, the least recently used registrations without a lease are evicted.
///
/// Thread-safe. A hit costs a lock, a tree look-up and one short system call. A forked child cannot
/// use the cache, as it has none of its parent's registrations.
class RegistrationCache {
  struct Entry;

 public:
  struct Limits {
    Bytes bytes{std::uint64_t{4} << 30};
    std::size_t count = 4096;
  };

  struct Statistics {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t evictions = 0;      ///< deregistered to make room
    std::uint64_t replacements = 0;   ///< replaced by a larger one that covers them too
    std::uint64_t invalidations = 0;  ///< because the memory changed, or may have
    std::uint64_t uncached = 0;       ///< misses that were registered for their lease only
    Bytes bytes{};                    ///< registered now
    std::size_t count = 0;            ///< registrations now
  };

  /// Keeps a registration in use. Must end before the cache.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { swap(other); }
    Lease& operator=(Lease&& other) noexcept {
      Lease{std::move(other)}.swap(*this);
      return *this;
    }
    ~Lease() { reset(); }

    bool valid() const { return entry_ != nullptr; }
    /// The registered range, which covers the requested one.
    AddressRange range() const;
    const MemoryKeys& keys() const;
    void reset() noexcept;

   private:
    friend RegistrationCache;
    Lease(RegistrationCache& cache, Entry& entry) : cache_(&cache), entry_(&entry) {}
    void swap(Lease& other) noexcept {
      std::swap(cache_, other.cache_);
      std::swap(entry_, other.entry_);
    }

    RegistrationCache* cache_ = nullptr;
    Entry* entry_ = nullptr;
  };

  /// `registrar` must outlive the cache.
  RegistrationCache(Registrar& registrar, Limits limits,
                    std::shared_ptr<MappingMonitor> monitor = MappingMonitor::shared());
  RegistrationCache(const RegistrationCache&) = delete;
  /// Ends the program when a lease is left: the device may still be writing.
  ~RegistrationCache();

  /// Throws InvalidArgument for no bytes; LimitReached when `length` does not fit beside the bytes
  /// that leases hold; the registrar's error if it persists after all unused registrations were
  /// dropped.
  Lease acquire(const void* address, Bytes length);

  /// Drops all registrations that overlap the range.
  void invalidate(const void* address, Bytes length);

  Statistics statistics() const;

 private:
  using Entries = std::list<Entry>;

  struct Entry {
    AddressRange range;
    MemoryKeys keys;
    std::size_t leases = 0;
    bool watched = false;  ///< in the index; otherwise deregistered with its last lease
    Entries::iterator self;
  };

  void check_process() const;
  void take_in_changes();
  Entry* find(AddressRange range);
  Entry& add(AddressRange wanted);
  AddressRange joined(AddressRange wanted) const;
  MemoryKeys register_or_make_room(AddressRange range);
  void make_room(Bytes bytes);
  void lease(Entry& entry);
  void release(Entry& entry) noexcept;
  void retire(Entry& entry);
  void retire_overlapping(AddressRange range, std::uint64_t Statistics::* reason);
  void evict(Entry& entry);
  void deregister(Entry& entry);

  Registrar& registrar_;
  const Limits limits_;
  const std::shared_ptr<MappingMonitor> monitor_;
  const pid_t process_;

  mutable std::mutex mutex_;
  Entries idle_;  ///< without a lease, least recently used first; all watched
  Entries busy_;
  std::map<std::uintptr_t, Entry*> index_;  ///< by begin; disjoint
  Bytes busy_bytes_{};
  std::uint64_t log_position_;
  Statistics statistics_;
};

}  // namespace capstan
