#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "capstan/quantity.hpp"
#include "core/net/file_descriptor.hpp"
#include "transports/common/mapping.hpp"

namespace capstan::shared {

/// The page that follows an allocation in its file.
struct Tail {
  std::uint64_t token;                 ///< by which a peer knows that it has opened the right file
  std::atomic<std::uint32_t> is_free;  ///< 1: its owner has given the memory back
};

enum class Kind : std::uint8_t {
  own,     ///< of this process alone
  shared,  ///< other processes can map it
};

/// Memory of this process, zeros, backed by pages near the thread that makes it: huge ones from
/// 2 MiB on, where the kernel has them. When shared it can be handed to other processes as a
/// descriptor, has no name in the file system, and its size is sealed: whoever maps it never faults
/// there, whatever becomes of its owner.
class Allocation {
 public:
  /// Takes as long as writing it once. Throws SystemError: memory or descriptors have run out.
  Allocation(Bytes size, Kind kind);
  Allocation(const Allocation&) = delete;
  /// The pages are given back at once, also where peers still map them.
  ~Allocation();

  std::span<std::byte> bytes() const { return {mapping_.data(), size_.value()}; }
  /// Of shared memory.
  std::uint64_t token() const { return tail().token; }
  int descriptor() const { return descriptor_.get(); }
  /// All peers have opened it.
  void close_descriptor() { descriptor_.reset(); }

 private:
  void share();
  void commit_own();
  Tail& tail() const;

  const Bytes size_;
  const Kind kind_;
  const pid_t owner_;
  FileDescriptor descriptor_;
  Mapping mapping_;
};

/// Memory of a peer, seen from here.
class View {
 public:
  /// Of process `pid`, as which it opened `descriptor`. Without a mapping when this process cannot
  /// get at it, or it is not the memory that has this token.
  static View of(int pid, int descriptor, Bytes size, std::uint64_t token);

  bool valid() const { return mapping_.data() != nullptr; }
  std::span<std::byte> bytes() const { return {mapping_.data(), size_.value()}; }
  /// Its owner has given it back: nobody reads what is written here.
  bool is_free() const;

 private:
  Bytes size_{};
  Mapping mapping_;
};

}  // namespace capstan::shared
