// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <ranges>
#include <span>
#include <utility>

#include "core/platform/memory/page_locker.hpp"
#include "core/platform/memory/registration/address_range.hpp"

namespace capstan {

/// Page-locked memory, to which devices transfer at full speed, up to a limit of bytes.
///
/// Released blocks stay locked for reuse; the least recently used go when room is needed. At the
/// limit, allocate() and pin() throw rather than take memory that is in use. pin() locks memory of
/// the caller, which is unlocked with its last handle and may then be freed at once. Pages that
/// several handles pin are locked and counted once.
///
/// Thread-safe; different handles may be used by different threads. Handles may outlive the
/// manager.
class PinnedMemory {
  struct State;

 public:
  static constexpr Bytes default_limit{std::uint64_t{1} << 30};

  struct Statistics {
    std::uint64_t allocations = 0;
    std::uint64_t reuses = 0;     ///< allocations that got a block that was locked already
    std::uint64_t pins = 0;       ///< of the caller's memory
    std::uint64_t evictions = 0;  ///< unused blocks that went back to the system
    Bytes pinned{};               ///< now, in whole pages, including unused blocks
    Bytes unused{};               ///< of these, in blocks that wait for reuse
    Bytes peak{};                 ///< the most that `pinned` was
  };

  /// Memory that stays pinned as long as this lives.
  class Handle {
   public:
    Handle() = default;
    Handle(Handle&& other) noexcept { swap(other); }
    Handle& operator=(Handle&& other) noexcept {
      Handle{std::move(other)}.swap(*this);
      return *this;
    }
    ~Handle() { reset(); }

    std::byte* data() const { return static_cast<std::byte*>(range_.data()); }
    Bytes size() const { return range_.size(); }
    std::span<std::byte> bytes() const { return {data(), size().value()}; }
    bool empty() const { return range_.empty(); }
    /// Gives the memory back. Calling it twice is harmless.
    void reset() noexcept;

   private:
    friend PinnedMemory;
    Handle(std::shared_ptr<State> state, AddressRange range, bool allocated)
        : state_(std::move(state)), range_(range), allocated_(allocated) {}
    void swap(Handle& other) noexcept {
      std::swap(state_, other.state_);
      std::swap(range_, other.range_);
      std::swap(allocated_, other.allocated_);
    }

    std::shared_ptr<State> state_;
    AddressRange range_;      ///< as requested
    bool allocated_ = false;  ///< by allocate(), not memory of the caller
  };

  explicit PinnedMemory(std::unique_ptr<PageLocker> locker, Bytes limit = default_limit);
  PinnedMemory(const PinnedMemory&) = delete;
  /// Frees unused blocks; blocks in use are freed with their handles.
  ~PinnedMemory();

  /// At least `size` bytes, aligned to a page, with arbitrary contents; an empty handle for none.
  /// Throws LimitReached (this manager's limit, or the system's), SystemError.
  Handle allocate(Bytes size);
  /// Pins memory of the caller, which must stay mapped while the handle lives. An empty handle for
  /// no bytes. Throws InvalidArgument for null, and like allocate().
  Handle pin(const void* address, Bytes length);
  /// Pins a whole vector, array or span.
  template <std::ranges::contiguous_range Range>
    requires std::ranges::sized_range<Range> && std::ranges::borrowed_range<Range>
  Handle pin(Range&& range) {
    return pin(std::ranges::data(range),
               Bytes{std::ranges::size(range) * sizeof(std::ranges::range_value_t<Range>)});
  }

  Bytes limit() const;
  /// Bytes pinned now, including unused blocks.
  Bytes total_pinned() const { return statistics().pinned; }
  Statistics statistics() const;
  /// "mlock", "CUDA", "HIP".
  std::string_view locker() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace capstan
