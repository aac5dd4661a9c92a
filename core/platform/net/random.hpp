// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <type_traits>

namespace capstan {

/// 128 random bits. A rank publishes a token in its address. A process that knows the token has
/// read the address, so it belongs to the job.
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
