// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/platform/memory/registration/address_range.hpp"

namespace capstan {

/// Logs when memory at watched addresses is replaced: unmapped, moved, mapped over, or given back
/// to the system. Thread-safe.
///
/// On Linux only the kernel can report this reliably. Overriding the symbols of munmap and its kin
/// misses static programs, direct system calls and internal calls of the C library, and depends on
/// the order in which libraries are loaded. UserfaultMonitor therefore asks the kernel. Where that
/// is not possible, memory counts as unwatched, which costs time but is never wrong.
class MappingMonitor {
 public:
  virtual ~MappingMonitor() = default;

  /// The monitor of this process, which all caches share, as only one monitor can watch a page. The
  /// monitor lives as long as a pointer to it.
  static std::shared_ptr<MappingMonitor> shared();
  /// Makes a monitor of the best kind that this machine allows.
  static std::shared_ptr<MappingMonitor> open();
  /// Makes a monitor that watches nothing; `reason` is its description.
  static std::shared_ptr<MappingMonitor> none(std::string reason);

  /// Whether any memory can be watched.
  virtual bool active() const = 0;
  /// For people: how it watches, or why it does not.
  virtual const std::string& description() const = 0;

  /// Logs changes of these whole pages from now on. False when they cannot be watched: part of them
  /// is not mapped, or is not private anonymous memory. Shared memory (files, System V segments,
  /// memfds) can be truncated by other processes, which the kernel does not report.
  virtual bool watch(AddressRange pages) = 0;
  /// Undoes one successful watch() of exactly these pages.
  virtual void unwatch(AddressRange pages) = 0;

  /// The end of the log, where a new reader starts.
  virtual std::uint64_t log_end() const = 0;
  /// Calls `changed` for every change since `position`, and advances it. Includes every change that
  /// took effect before this call, even if the system call that made it has not returned yet. False
  /// when the log is incomplete: then everything may have changed.
  virtual bool read_log(std::uint64_t& position,
                        const std::function<void(AddressRange)>& changed) = 0;
};

}  // namespace capstan
