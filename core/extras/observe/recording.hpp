// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "transports/common/mapping.hpp"

namespace capstan {

/// An operation as a recording stores it, in one cache line. Names are numbers in the recording's
/// table. Times are nanoseconds of the steady clock.
struct StoredOperation {
  std::uint64_t number = 0;  ///< from 1; 0: nothing, or being written
  std::uint64_t bytes = 0;
  std::int64_t began = 0, ended = 0;
  std::int32_t ranks = 0, rank = -1;
  std::uint16_t operation = 0, algorithm = 0, tag = 0, failed = 0;
  std::array<std::uint64_t, 2> reserved{};

  std::chrono::nanoseconds duration() const { return std::chrono::nanoseconds{ended - began}; }
};
static_assert(sizeof(StoredOperation) == 64);

/// The operations of one profiler, in memory of a fixed layout, which holds no addresses: another
/// process can read it while it is written, and when its writer is gone. Operations lie in a ring:
/// new ones replace the oldest. Nothing here allocates once it is made.
///
/// One thread at a time writes. Functions that read operations one by one need no lock.
class Recording {
 public:
  using Name = std::uint16_t;
  static constexpr std::size_t most_operations = std::size_t{1} << 24;
  static constexpr std::size_t most_names = 1022;      ///< besides "" and "(other)"
  static constexpr std::size_t longest_name = 63;      ///< the rest is cut off
  static constexpr Name no_name = 0, other_names = 1;  ///< the numbers of "" and "(other)"

  /// In memory of this process or, if it has a name, in a new file, which replaces an older one.
  /// Throws InvalidArgument for a capacity of 0 or beyond most_operations, SystemError.
  explicit Recording(std::size_t capacity, const std::string& file = {});
  /// Opens what another process has written or is writing, to be read. Throws SystemError,
  /// InvalidArgument for a file that is no recording.
  static Recording open(const std::string& file);

  /// The number of a name, which is copied when it comes for the first time. Names that come when
  /// the table is full share the number of "(other)".
  Name number_of(std::string_view name) noexcept;
  std::string_view name(Name number) const;

  void append(StoredOperation operation) noexcept;
  void clear() noexcept;

  /// The operations that are stored, the oldest first.
  std::vector<StoredOperation> stored() const {
    std::vector<StoredOperation> stored;
    for_each([&](const StoredOperation& operation) { stored.push_back(operation); });
    return stored;
  }
  /// Calls `use` with each operation that is stored, the oldest first.
  template <class Use>
  void for_each(Use use) const {
    const std::uint64_t last = written(), cleared = std::min(forgotten(), last);
    for (std::uint64_t left = std::min<std::uint64_t>(last - cleared, capacity_); left > 0; --left)
      if (const auto operation = at(last - left + 1)) use(*operation);
  }
  std::uint64_t written() const { return header().written.load(std::memory_order_acquire); }
  /// Operations up to this number have been cleared.
  std::uint64_t forgotten() const { return header().forgotten.load(std::memory_order_acquire); }

  /// The time by the system's clock.
  std::chrono::system_clock::time_point system_time(std::int64_t steady) const;

 private:
  static constexpr std::size_t names = most_names + 2;

  struct Header {
    std::array<char, 8> magic;
    std::uint32_t capacity, name_count;
    std::int64_t origin;  ///< the system's clock when the steady clock was 0
    std::atomic<std::uint64_t> written, forgotten;
    std::atomic<std::uint32_t> known_names;
  };
  using StoredName = std::array<char, longest_name + 1>;
  using Words = std::array<std::atomic<std::uint64_t>, sizeof(StoredOperation) / 8>;
  static constexpr std::size_t header_bytes = 4096;

  Recording(std::size_t capacity, Mapping memory);
  static Bytes bytes_for(std::size_t capacity);
  static Mapping created(const std::string& file, std::size_t capacity);
  void begin();

  Header& header() const { return *reinterpret_cast<Header*>(memory_.data()); }
  StoredName* stored_names() const {
    return reinterpret_cast<StoredName*>(memory_.data() + header_bytes);
  }
  Words& place(std::size_t index) const;
  bool is_name(Name number, std::string_view text) const noexcept;
  /// Nothing if it has been replaced, or is being replaced.
  std::optional<StoredOperation> at(std::uint64_t number) const;
  Name add_name(std::string_view name, Name& place) noexcept;

  std::size_t capacity_;
  Mapping memory_;
  std::size_t next_ = 0;              ///< the place of the next operation
  std::array<Name, 4096> numbers_{};  ///< of names, by hash; 0: free
};

}  // namespace capstan
