// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "capstan/quantity.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "core/platform/net/own_process.hpp"
#include "transports/common/mapping.hpp"

namespace capstan::shared {

/// The end of an allocation's file, in a page of its own behind the allocation.
struct Tail {
  std::uint64_t token;                 ///< tells a peer that it has opened the right file
  std::atomic<std::uint32_t> is_free;  ///< 1: its owner has freed the memory
};

enum class Kind : std::uint8_t {
  own,     ///< for this process alone
  shared,  ///< other processes can map it
};

/// Memory of this process: zeros, in pages near the thread that allocates it, huge pages from 2 MiB
/// on where the kernel has them. Shared memory can be passed to other processes as a descriptor. It
/// has no name in the file system, and its size is sealed, so that a process that maps it never
/// faults there, even when its owner has ended. Forked children can read it.
class Allocation {
 public:
  /// Takes as long as writing the memory once. Throws SystemError: memory or descriptors have run
  /// out.
  Allocation(Bytes size, Kind kind);
  Allocation(const Allocation&) = delete;
  /// Frees the pages at once, even where peers still map them.
  ~Allocation();

  std::span<std::byte> bytes() const { return {mapping_.data(), size_.value()}; }
  /// Only for shared memory, like the functions below.
  std::uint64_t token() const { return tail().token; }
  int descriptor() const { return descriptor_.get(); }
  /// To be called when all peers have opened the descriptor.
  void close_descriptor() { descriptor_.reset(); }

 private:
  void share();
  void commit_own();
  Tail& tail() const;

  const Bytes size_;
  const Kind kind_;
  const OwnProcess process_;
  FileDescriptor descriptor_;
  Mapping mapping_;
};

/// Memory of a peer, mapped into this process.
class View {
 public:
  /// Maps the file that process `pid` has open as `descriptor`. The view is not valid if this
  /// process may not open the file, or if the file's token is another.
  static View of(int pid, int descriptor, Bytes size, std::uint64_t token);

  bool valid() const { return mapping_.data() != nullptr; }
  std::span<std::byte> bytes() const { return {mapping_.data(), size_.value()}; }
  /// Whether the owner has freed the memory: nobody reads what is written here any more.
  bool is_free() const;

 private:
  Bytes size_{};
  Mapping mapping_;
};

}  // namespace capstan::shared
