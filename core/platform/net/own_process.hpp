// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

namespace capstan {

/// The number of forks that have led from the first process of the program to this one. It changes
/// in forked children only.
inline std::atomic<unsigned> fork_generation = 0;

/// Remembers which process has made an object. fork() copies the object into a child, but not what
/// the object stands for: threads, connections, agreements with peers. The child may drop the copy,
/// and must not touch anything that the process still uses.
class OwnProcess {
 public:
  /// False in a forked child.
  bool is_this() const {
    return generation_ == fork_generation.load(std::memory_order_relaxed) && id_ == ::getpid();
  }
  pid_t id() const { return id_; }
  /// Throws InvalidArgument in a forked child: `what` belongs to the process that made it.
  void require(std::string_view what) const {
    if (generation_ != fork_generation.load(std::memory_order_relaxed)) [[unlikely]]
      refuse(what);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const;

  unsigned generation_ = fork_generation.load(std::memory_order_relaxed);
  pid_t id_ = ::getpid();
};

/// Base of objects that change in a forked child.
class ChangedByFork {
 public:
  ChangedByFork(const ChangedByFork&) = delete;

 protected:
  ChangedByFork();
  virtual ~ChangedByFork();
  /// Called in the child before fork() returns there. No other thread exists; locks that other
  /// threads held stay locked for ever. No function may be called that a signal handler may not.
  virtual void become_child() noexcept = 0;

 private:
  friend struct ForkHandlers;
  ChangedByFork *next_ = nullptr, *previous_ = nullptr;
};

/// Children close this descriptor when they begin. So a peer sees the end of this process, though
/// children of it live on. False: the number is too great; children keep the descriptor.
bool close_in_children(int descriptor);
/// To be called before the descriptor is closed.
void forget_in_children(int descriptor);

}  // namespace capstan
