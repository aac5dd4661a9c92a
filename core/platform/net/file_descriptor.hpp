// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "core/platform/net/own_process.hpp"

namespace capstan {

/// Owns an open file descriptor; closes it when destroyed. It is above 2: where a program has
/// started with closed standard streams, the kernel gives out their numbers, to which the program
/// prints.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(above_standard_streams(fd)) {}
  FileDescriptor(FileDescriptor&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        not_in_children_(other.not_in_children_),
        generation_(other.generation_) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(not_in_children_, other.not_in_children_);
    std::swap(generation_, other.generation_);
    return *this;
  }
  ~FileDescriptor() { reset(); }

  /// A descriptor that forked children do not get; see close_in_children().
  static FileDescriptor not_in_children(int fd) {
    FileDescriptor descriptor{fd};
    descriptor.not_in_children_ = close_in_children(descriptor.fd_);
    return descriptor;
  }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  void reset() {
    if (fd_ < 0) return;
    const int fd = std::exchange(fd_, -1);
    if (not_in_children_) {
      if (generation_ != fork_generation.load(std::memory_order_relaxed)) return;  // closed already
      forget_in_children(fd);
    }
    ::close(fd);
  }

 private:
  static int above_standard_streams(int fd) {
    if (fd < 0 || fd > STDERR_FILENO) [[likely]]
      return fd;
    const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (moved < 0) return fd;
    ::close(fd);
    return moved;
  }

  int fd_ = -1;
  bool not_in_children_ = false;
  unsigned generation_ = fork_generation.load(std::memory_order_relaxed);
};

}  // namespace capstan
