#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/memory/registration/address_range.hpp"

namespace capstan {

/// Knows when addresses stop meaning the memory that they meant: unmapped, moved, mapped over, or
/// given back to the system. Thread-safe.
///
/// On Linux only the kernel can say so reliably. Replacing munmap and its kin by symbols of one's
/// own misses static programs, direct system calls, the C library's internal calls, and depends on
/// the order in which libraries are loaded. So this asks the kernel (see UserfaultMonitor), and
/// where the kernel won't tell, memory counts as unwatched, which costs time but is never wrong.
class MappingMonitor {
 public:
  virtual ~MappingMonitor() = default;

  /// The process's own: all caches share it, because a page can be watched by one only. It lives as
  /// long as somebody holds it.
  static std::shared_ptr<MappingMonitor> shared();
  /// A new one of the best kind that this machine allows.
  static std::shared_ptr<MappingMonitor> open();
  /// Watches nothing; `reason` says why.
  static std::shared_ptr<MappingMonitor> none(std::string reason);

  /// Whether any memory can be watched.
  virtual bool active() const = 0;
  /// How it watches or why it doesn't, for people.
  virtual const std::string& description() const = 0;

  /// From now on changes of these whole pages are logged. False when they cannot be watched: part
  /// of them is not mapped, or is not private anonymous memory. Others (files, System V segments,
  /// memfds) can be cut off by whoever shares them, which the kernel reports to nobody.
  virtual bool watch(AddressRange pages) = 0;
  /// Takes back one successful watch() of exactly these pages.
  virtual void unwatch(AddressRange pages) = 0;

  /// A position in the log, from which a new reader starts.
  virtual std::uint64_t log_end() const = 0;
  /// Calls `changed` for all that has changed since `position`, and moves it on. Everything that
  /// took effect before this call is included, also when the thread that did it has not returned
  /// yet. False when the log does not say: then everything may have changed.
  virtual bool read_log(std::uint64_t& position,
                        const std::function<void(AddressRange)>& changed) = 0;
};

}  // namespace capstan
