// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "capstan/error.hpp"
#include "capstan/quantity.hpp"

namespace capstan {

/// Addresses begin <= a < end of this process (or of a device that shares its address space).
struct AddressRange {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;

  Bytes size() const { return Bytes{end - begin}; }
  bool empty() const { return begin >= end; }
  bool contains(AddressRange other) const { return begin <= other.begin && other.end <= end; }
  bool overlaps(AddressRange other) const { return begin < other.end && other.begin < end; }
  void* data() const {
    return reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr)
  }
  bool operator==(const AddressRange&) const = default;
};

/// Throws InvalidArgument, whose text begins with `call`, for null and for a length that does not
/// fit into the address space.
inline AddressRange address_range(const void* address, Bytes length, const char* call) {
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  if (address == nullptr && length.value() != 0)
    throw InvalidArgument(fmt::format("{}: {} bytes at a null pointer: pass the buffer's address",
                                      call, length.value()));
  constexpr auto end_of_user_space = std::uintptr_t{1} << (8 * sizeof(std::uintptr_t) - 1);
  if (begin > end_of_user_space || length.value() > end_of_user_space - begin)
    throw InvalidArgument(
        fmt::format("{}: {} bytes at {} reach past the end of the address space: check the length",
                    call, length.value(), address));
  return {begin, begin + length.value()};
}

inline std::uint64_t page_size() {
  static const auto size = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// The smallest range of whole units (a power of two) that contains `range`.
inline AddressRange rounded_out(AddressRange range, std::uint64_t unit) {
  return {range.begin & ~(unit - 1), (range.end + unit - 1) & ~(unit - 1)};
}

/// "64 KiB", "1.5 MiB", for messages.
inline std::string readable(Bytes bytes) {
  const auto value = static_cast<double>(bytes.value());
  if (bytes.value() >= std::uint64_t{1} << 30) return fmt::format("{:.4g} GiB", value / (1 << 30));
  if (bytes.value() >= 1 << 20) return fmt::format("{:.4g} MiB", value / (1 << 20));
  if (bytes.value() >= 1 << 10) return fmt::format("{:.4g} KiB", value / (1 << 10));
  return fmt::format("{} bytes", bytes.value());
}

}  // namespace capstan
