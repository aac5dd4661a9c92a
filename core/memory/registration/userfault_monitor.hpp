#pragma once

#include <sys/types.h>

#include <array>
#include <memory>
#include <mutex>
#include <thread>

#include "core/memory/registration/mapping_monitor.hpp"
#include "core/memory/registration/range_counts.hpp"
#include "core/net/file_descriptor.hpp"

namespace capstan {

/// Watches through userfaultfd(2). Pages are registered in write-protect mode and never protected:
/// so no access ever faults into this process, the descriptor may be opened without privilege
/// (UFFD_USER_MODE_ONLY, Linux 5.11), and all that remains are the kernel's events for munmap,
/// mremap, madvise, brk and mmap over what was there.
///
///     a thread unmaps          the monitor's thread        a reader of the log
///     ----------------         --------------------        -------------------
///     pages are gone
///     waits for a read  ---->  lock log; read; append
///     returns           <----  unlock                      probe; lock log; copy
///
/// Whoever unmaps is held up until the event has been read, which happens with the log locked: when
/// munmap has returned, the log has it. Before that, another thread may be given the same
/// addresses already: so a reader first probes whether a change is under way (the kernel refuses
/// UFFDIO_WRITEPROTECT with EAGAIN then), and lets it finish.
///
/// The thread that reads must never wait for one that unmaps: it allocates nothing, and whoever
/// holds the log's lock neither allocates nor frees, since the C library may give memory back then.
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
