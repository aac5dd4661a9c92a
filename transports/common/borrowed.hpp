#pragma once

#include <cstddef>
#include <span>

namespace capstan {

/// Memory that a transport shares with others of its rank, all of which it outlives. What is null
/// here, the transport has for itself.
struct Borrowed {
  Borrowed(std::byte* its_segment = nullptr, std::span<std::byte* const> its_mirrors = {})
      : segment(its_segment), mirrors(its_mirrors) {}

  std::byte* segment;
  std::span<std::byte* const> mirrors;  // by peer; each as large as the segment
};

}  // namespace capstan
