// SPDX-License-Identifier: Apache-2.0
#include "core/platform/memory/registration/userfault_monitor.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "core/platform/memory/registration/memory_map.hpp"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

namespace capstan {
namespace {

constexpr std::uint64_t wanted_features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP |
                                          UFFD_FEATURE_EVENT_REMOVE |
                                          UFFD_FEATURE_PAGEFAULT_FLAG_WP;

[[noreturn]] void refuse(const char* call) {
  throw SystemError(fmt::format(
      "{} failed: {}: the kernel does not say when memory is unmapped, so registrations "
      "are not kept between calls; needs Linux 5.11 and a container profile that allows "
      "userfaultfd(2)",
      call, std::generic_category().message(errno)));
}

/// Opens without privilege if the kernel supports it, else with the rights of the process.
FileDescriptor open_userfaultfd() {
  constexpr int flags = O_CLOEXEC | O_NONBLOCK;
  for (const int more : {UFFD_USER_MODE_ONLY, 0}) {
    FileDescriptor fd{static_cast<int>(::syscall(SYS_userfaultfd, flags | more))};
    if (fd.valid()) return fd;
  }
  const int error = errno;
  const FileDescriptor device{::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC)};
  if (device.valid()) {
    FileDescriptor fd{::ioctl(device.get(), USERFAULTFD_IOC_NEW, flags)};
    if (fd.valid()) return fd;
  }
  errno = error;
  refuse("userfaultfd");
}

uffdio_range kernel_range(AddressRange range) {
  return {range.begin, range.size().value()};
}

bool register_pages(int fd, AddressRange pages) {
  uffdio_register request{kernel_range(pages), UFFDIO_REGISTER_MODE_WP, 0};
  return ::ioctl(fd, UFFDIO_REGISTER, &request) == 0;
}

}  // namespace

UserfaultMonitor::UserfaultMonitor()
    : events_(open_userfaultfd()), stop_(::eventfd(0, EFD_CLOEXEC)), process_(::getpid()) {
  if (!stop_.valid()) refuse("eventfd");
  uffdio_api api{UFFD_API, wanted_features, 0};
  if (::ioctl(events_.get(), UFFDIO_API, &api) != 0) refuse("UFFDIO_API");
  map_sentinel();
  description_ = "userfaultfd: the kernel reports what is unmapped";
  try {
    start_thread();
  } catch (...) {
    ::munmap(sentinel_.data(), sentinel_.size().value());
    throw;
  }
}

void UserfaultMonitor::map_sentinel() {
  void* page =
      ::mmap(nullptr, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) refuse("mmap");
  sentinel_ = address_range(page, Bytes{page_size()}, "sentinel");
  if (register_pages(events_.get(), sentinel_)) return;
  const int error = errno;
  ::munmap(page, page_size());
  errno = error;
  refuse("UFFDIO_REGISTER");
}

/// Blocks all signals in the thread, as a handler of the program might unmap memory.
void UserfaultMonitor::start_thread() {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::make_unique<std::thread>([this] { run(); });
  } catch (const std::system_error& error) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw SystemError(fmt::format("no thread could be started to watch memory: {}", error.what()));
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

UserfaultMonitor::~UserfaultMonitor() {
  if (::getpid() != process_) {  // a forked child has neither the thread nor the registrations
    static_cast<void>(thread_.release());
    return;
  }
  ::eventfd_write(stop_.get(), 1);
  thread_->join();
  events_.reset();  // resumes all threads that wait for an event to be read
  ::munmap(sentinel_.data(), sentinel_.size().value());
}

void UserfaultMonitor::run() {
  for (;;) {
    pollfd waiting[] = {{events_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(waiting, 2, -1) < 0) continue;
    if (waiting[1].revents != 0) return;
    read_events();
  }
}

void UserfaultMonitor::read_events() {
  const std::lock_guard lock{log_mutex_};
  uffd_msg message;
  while (::read(events_.get(), &message, sizeof message) == sizeof message) {
    if (message.event == UFFD_EVENT_UNMAP || message.event == UFFD_EVENT_REMOVE) {
      append(message.arg.remove.start, message.arg.remove.end);
    } else if (message.event == UFFD_EVENT_REMAP) {
      append(message.arg.remap.from, message.arg.remap.from + message.arg.remap.len);
    }
  }
}

void UserfaultMonitor::append(std::uint64_t begin, std::uint64_t end) {
  log_[log_end_++ % capacity] = {begin, end};
}

bool UserfaultMonitor::watch(AddressRange pages) {
  if (!is_private_anonymous(pages)) return false;
  const std::lock_guard lock{watched_mutex_};
  // Also for watched addresses: they may have held other memory before.
  if (!register_pages(events_.get(), pages)) return false;
  watched_.add(pages);
  return true;
}

void UserfaultMonitor::unwatch(AddressRange pages) {
  const std::lock_guard lock{watched_mutex_};
  watched_.remove(pages, [this](AddressRange part) { unregister(part); });
}

/// The call fails where nothing is mapped any more, which does no harm.
void UserfaultMonitor::unregister(AddressRange pages) const {
  uffdio_range range = kernel_range(pages);
  static_cast<void>(::ioctl(events_.get(), UFFDIO_UNREGISTER, &range));
}

std::uint64_t UserfaultMonitor::log_end() const {
  const std::lock_guard lock{log_mutex_};
  return log_end_;
}

bool UserfaultMonitor::change_under_way() const {
  uffdio_writeprotect request{kernel_range(sentinel_), 0};
  return ::ioctl(events_.get(), UFFDIO_WRITEPROTECT, &request) != 0;
}

/// Waits until no change is in progress. False when changes never cease, because many threads unmap
/// all the time.
bool UserfaultMonitor::settle() const {
  for (int tries = 0; tries < 10'000; ++tries) {
    if (!change_under_way()) return true;
    ::sched_yield();
  }
  return false;
}

bool UserfaultMonitor::read_log(std::uint64_t& position,
                                const std::function<void(AddressRange)>& changed) {
  bool complete = settle();
  std::array<AddressRange, 64> some;
  for (;;) {
    std::uint64_t count = 0;
    {
      const std::lock_guard lock{log_mutex_};
      if (log_end_ - position > capacity) {
        position = log_end_;
        return false;
      }
      count = std::min<std::uint64_t>(log_end_ - position, some.size());
      for (std::uint64_t i = 0; i < count; ++i) some[i] = log_[position++ % capacity];
    }
    if (count == 0) return complete;
    for (std::uint64_t i = 0; i < count; ++i) changed(some[i]);
  }
}

}  // namespace capstan
