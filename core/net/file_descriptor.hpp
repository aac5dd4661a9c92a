#pragma once

#include <unistd.h>

#include <utility>

#include "core/net/own_process.hpp"

namespace capstan {

/// Owns an open file descriptor; closes it when destroyed.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
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
    descriptor.not_in_children_ = close_in_children(fd);
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
  int fd_ = -1;
  bool not_in_children_ = false;
  unsigned generation_ = fork_generation.load(std::memory_order_relaxed);
};

}  // namespace capstan
