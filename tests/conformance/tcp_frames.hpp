// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "transports/tcp/frame.hpp"

namespace capstan::conformance {

/// The header of a frame, and so many bytes of a payload, which may be another number than it says.
inline std::vector<std::byte> frame(std::uint64_t offset, std::uint64_t length,
                                    std::size_t payload) {
  const tcp::FrameHeader header{offset, length};
  std::vector<std::byte> bytes(sizeof(header) + payload);
  std::memcpy(bytes.data(), &header, sizeof(header));
  for (std::size_t i = 0; i < payload; ++i) bytes[sizeof(header) + i] = static_cast<std::byte>(i);
  return bytes;
}

}  // namespace capstan::conformance
