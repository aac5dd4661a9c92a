// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <memory>
#include <mutex>
#include <thread>

#include "core/platform/memory/registration/mapping_monitor.hpp"
#include "core/platform/memory/registration/range_counts.hpp"
#include "core/platform/net/file_descriptor.hpp"

namespace capstan {

/// Watches through userfaultfd(2). Pages are registered in write-protect mode and never protected.
/// So no access faults, and the descriptor may be opened without privilege (UFFD_USER_MODE_ONLY,
/// Linux 5.11). The remaining events are those of munmap, mremap, madvise, brk, and mmap over
/// existing mappings.
///
///     a thread unmaps          the monitor's thread        a reader of the log
///     ----------------         --------------------        -------------------
///     pages are gone
///     waits for a read  ---->  lock log; read; append
///     returns           <----  unlock                      probe; lock log; copy
///
/// munmap returns only after the event has been read, which happens with the log locked: so when
/// munmap has returned, the log contains the event. Another thread may get the same addresses
/// before munmap returns. A reader therefore first probes whether a change is in progress (the
/// kernel then refuses UFFDIO_WRITEPROTECT with EAGAIN), and waits for its end.
///
/// The monitor's thread must never wait for a thread that unmaps. So it does not allocate, and no
/// holder of the log's lock allocates or frees, as the C library may then unmap memory.
class UserfaultMonitor final : public MappingMonitor {
 public:
  /// Throws SystemError that says what this machine lacks.
  UserfaultMonitor();
  ~UserfaultMonitor() override;

  bool active() const override { return true; }
  const std::string& description() const override { return description_; }
  bool watch(AddressRange pages) override;
  void unwatch(AddressRange pages) override;
  std::uint64_t log_end() const override;
  bool read_log(std::uint64_t& position, const std::function<void(AddressRange)>& changed) override;

 private:
  static constexpr std::uint64_t capacity = 1024;

  void map_sentinel();
  void start_thread();
  void run();
  void read_events();
  void append(std::uint64_t begin, std::uint64_t end);
  bool change_under_way() const;
  bool settle() const;
  void unregister(AddressRange pages) const;

  FileDescriptor events_;
  FileDescriptor stop_;
  AddressRange sentinel_;  ///< one page, always registered and never written to: for the probe
  std::string description_;
  const pid_t process_;

  std::mutex watched_mutex_;
  RangeCounts watched_;

  mutable std::mutex log_mutex_;
  std::array<AddressRange, capacity> log_{};  ///< the last ones; event n is at n % capacity
  std::uint64_t log_end_ = 0;

  std::unique_ptr<std::thread> thread_;
};

}  // namespace capstan
