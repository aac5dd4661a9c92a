// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>

#include "capstan/export.hpp"
#include "capstan/quantity.hpp"
#include "capstan/tensor.hpp"

namespace CAPSTAN_EXPORT capstan {

/// Page-locked host memory, to which devices transfer at full speed, up to a limit of bytes. Locked
/// by CUDA's or HIP's driver where there is one, else by mlock(2).
///
/// Released blocks stay locked for reuse; the least recently used go when room is needed. At the
/// limit, allocate() and pin() throw rather than take memory that is in use. Thread-safe; different
/// handles may be used by different threads, and may outlive the manager.
class PinnedMemoryManager {
  struct State;
  struct Pinned;

 public:
  struct Statistics {
    std::uint64_t allocations = 0;
    std::uint64_t reuses = 0;     ///< allocations that got a block that was locked already
    std::uint64_t pins = 0;       ///< of the caller's memory
    std::uint64_t evictions = 0;  ///< unused blocks that went back to the system
    Bytes pinned{};               ///< now, in whole pages, including unused blocks
    Bytes unused{};               ///< of these, in blocks that wait for reuse
    Bytes peak{};                 ///< the most that `pinned` was
  };

  /// Memory that stays pinned as long as a copy of this lives.
  class Handle {
   public:
    Handle() = default;
    std::byte* data() const { return bytes_.data(); }
    Bytes size() const { return Bytes{bytes_.size()}; }
    std::span<std::byte> bytes() const { return bytes_; }
    bool empty() const { return bytes_.empty(); }
    /// Gives the memory back. Calling it twice is harmless.
    void reset() { *this = Handle{}; }

   private:
    friend PinnedMemoryManager;
    std::shared_ptr<Pinned> pinned_;
    std::span<std::byte> bytes_;
  };

  /// Initialises the drivers of devices.
  explicit PinnedMemoryManager(Bytes limit = Bytes{std::uint64_t{1} << 30});

  /// At least `size` bytes, aligned to a page, with arbitrary contents; an empty handle for none.
  /// Throws LimitReached (this manager's limit, or the system's), SystemError.
  [[nodiscard]] Handle allocate(Bytes size);
  /// Pins memory of the caller, which must stay mapped while the handle lives. An empty handle for
  /// no bytes. Throws InvalidArgument for null, and like allocate().
  [[nodiscard]] Handle pin(void* address, Bytes length);
  /// Pins a tensor's memory, from its first element to its last. Throws InvalidArgument for null
  /// memory with elements, memory on a device and strides below 0, and like allocate().
  [[nodiscard]] Handle pin(const TensorView& tensor);
  /// Pins a whole vector, array or span.
  template <std::ranges::contiguous_range Range>
    requires std::ranges::sized_range<Range> && std::ranges::borrowed_range<Range>
  [[nodiscard]] Handle pin(Range&& range) {
    return pin(std::ranges::data(range),
               Bytes{std::ranges::size(range) * sizeof(std::ranges::range_value_t<Range>)});
  }

  Bytes limit() const;
  /// Bytes pinned now, including unused blocks.
  Bytes total_pinned() const { return statistics().pinned; }
  Statistics statistics() const;

 private:
  Handle handle_of(Pinned pinned);

  std::shared_ptr<State> state_;
};

}  // namespace CAPSTAN_EXPORT capstan
