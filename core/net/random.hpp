#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

namespace capstan {

/// 128 bits that nobody can guess. A rank publishes one in its address; whoever shows it has read
/// that address.
using Token = std::array<std::byte, 16>;

/// Fills `bytes` from the operating system's random source. Thread-safe. Throws SystemError.
void fill_randomly(std::span<std::byte> bytes);

/// A value of which every bit is random.
template <class T>
T random_value() {
  static_assert(std::has_unique_object_representations_v<T>);
  T value;
  fill_randomly(std::as_writable_bytes(std::span{&value, 1}));
  return value;
}

/// Two lower-case digits for each byte.
std::string hexadecimal(std::span<const std::byte> bytes);

}  // namespace capstan
