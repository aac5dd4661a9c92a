// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace capstan {

// Bytes as libsodium takes them.
inline unsigned char* raw(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
inline const unsigned char* raw(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

inline const unsigned char* raw(const char* text) {
  return reinterpret_cast<const unsigned char*>(text);
}

}  // namespace capstan
