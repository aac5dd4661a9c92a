// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

namespace capstan {

/// Memory that a transport shares with other transports of its rank. It outlives them all. The
/// transport allocates what is null or empty here.
struct Borrowed {
  Borrowed(std::byte* its_segment = nullptr, std::span<std::byte* const> its_mirrors = {})
      : segment(its_segment), mirrors(its_mirrors) {}

  std::byte* segment;
  std::span<std::byte* const> mirrors;  // by peer; each as large as the segment
};

}  // namespace capstan
