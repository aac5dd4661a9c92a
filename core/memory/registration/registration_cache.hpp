#pragma once

#include <sys/types.h>

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/memory/registration/address_range.hpp"
#include "core/memory/registration/mapping_monitor.hpp"
#include "core/memory/registration/range_counts.hpp"

namespace capstan {

/// What a transport got for memory that it has registered; means something to it alone.
struct MemoryKeys {
  void* handle = nullptr;  ///< an ibv_mr*, a fid_mr*, ...
  std::uint64_t local = 0;
  std::uint64_t remote = 0;
  bool operator==(const MemoryKeys&) const = default;
};

/// Makes memory reachable for one device: verbs, libfabric and CUDA each have one. Called with the
/// cache locked: by one thread at a time, and must not call the cache.
class Registrar {
 public:
  virtual ~Registrar() = default;

  /// Throws InvalidArgument when it cannot have this memory, another Error when the device or the
  /// system has no room.
  virtual MemoryKeys register_memory(AddressRange range) = 0;
  virtual void deregister_memory(const MemoryKeys& keys) noexcept = 0;

  /// For memory that the kernel does not watch but the device can tell apart (CUDA's buffer id): a
  /// number that is another one as soon as other memory lies at these addresses. Nothing for the
  /// rest.
  virtual std::optional<std::uint64_t> identity(AddressRange) { return std::nullopt; }

  /// Registrations begin and end at multiples of this power of two.
  virtual Bytes granularity() const { return Bytes{page_size()}; }
};

/// Registered memory, kept between operations because registering costs far more than sending.
///
/// A registration is kept only where it cannot go stale unnoticed: the kernel watches the memory
/// (MappingMonitor), or the registrar knows its identity, or the caller has promised (trust()) to
/// call invalidate() before it goes away. Anything else is registered for each lease and
/// deregistered at its end. What has gone stale is never given out again, and is deregistered at
/// the next call, or when its last lease ends.
///
/// What overlaps is registered anew as one, so that those kept are disjoint. At a limit, the least
/// recently used go that no lease holds.
///
/// Thread-safe. A hit costs a lock, a tree look-up and one short system call. Not for a forked
/// child, which has none of its parent's registrations.
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
    std::uint64_t evictions = 0;      ///< for want of room
    std::uint64_t replacements = 0;   ///< by a larger one that covers them too
    std::uint64_t invalidations = 0;  ///< because the memory changed, or may have
    std::uint64_t unkept = 0;         ///< misses that were registered for their lease only
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
    /// Of what is registered, which is at least what was asked for.
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

  /// Throws InvalidArgument for no bytes; LimitReached when leases hold so much that `length` does
  /// not fit in; what the registrar throws, if that does not help to drop all that is unused.
  Lease acquire(const void* address, Bytes length);

  /// The caller will call invalidate() before this memory goes away, so it may be kept until then.
  void trust(const void* address, Bytes length);
  /// Forgets what is registered there, and trust() in it.
  void invalidate(const void* address, Bytes length);
  /// Deregisters what has gone stale meanwhile; else the next acquire() does.
  void collect();
  /// Deregisters all that no lease holds.
  void clear();

  Statistics statistics() const;
  /// How unmapped memory is noticed, or why nothing is kept.
  const std::string& monitor_description() const { return monitor_->description(); }

 private:
  using Entries = std::list<Entry>;

  /// Who says that the memory is still the same.
  enum class Kept { no, watched, identified, trusted };
  struct Entry {
    AddressRange range;
    MemoryKeys keys;
    Kept kept = Kept::no;
    std::optional<std::uint64_t> identity;
    std::size_t leases = 0;
    bool indexed = false;  ///< may be found; otherwise it goes with its last lease
    Entries::iterator self;
  };

  void check_process() const;
  void take_in_changes();
  Entry* find(AddressRange range);
  Entry& add(AddressRange wanted);
  AddressRange joined(AddressRange wanted) const;
  Kept how_to_keep(AddressRange range, std::optional<std::uint64_t>& identity);
  MemoryKeys register_or_make_room(AddressRange range);
  void make_room(Bytes bytes);
  void lease(Entry& entry);
  void release(Entry& entry) noexcept;
  void retire(Entry& entry);
  void retire_overlapping(AddressRange range, std::uint64_t Statistics::* reason);
  void retire_all();
  void evict(Entry& entry);
  void deregister(Entry& entry);

  Registrar& registrar_;
  const Limits limits_;
  const std::shared_ptr<MappingMonitor> monitor_;
  const pid_t process_;

  mutable std::mutex mutex_;
  Entries idle_;  ///< no lease holds them, least recently used first; all indexed
  Entries busy_;
  std::map<std::uintptr_t, Entry*> index_;  ///< by begin; disjoint
  RangeCounts trusted_;
  Bytes busy_bytes_{};
  std::uint64_t log_position_;
  Statistics statistics_;
};

}  // namespace capstan
