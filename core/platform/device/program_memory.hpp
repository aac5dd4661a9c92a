// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/platform/device/device_block.hpp"

namespace capstan {

/// The memory of a device that programs of calls need. What is allocated at first is enough for
/// some hundred kinds of calls, so that a new size allocates nothing: an allocation may wait for
/// all kernels of a device, and these for other ranks. Not thread-safe.
class ProgramMemory {
 public:
  /// Sizes of what is allocated at first, for programs and to be shared. Tests make it short.
  inline static Bytes first_programs{2 << 20}, first_shared{1 << 20};

  /// A piece for one program, and as much page-locked memory, from which streams copy it.
  struct Piece {
    std::byte* device = nullptr;
    std::byte* host = nullptr;
    Bytes size{};
    std::size_t chunk = 0;
  };

  /// Throws SystemError.
  explicit ProgramMemory(DeviceBlocks& blocks);

  /// None: all that is there is in use.
  std::optional<Piece> take(Bytes size);
  void give_back(const Piece& piece);
  /// Allocates more, at least so much. Throws SystemError.
  void grow(Bytes least);
  /// Memory of at least this size, which all programs share, as calls run one after another. It
  /// keeps its address for as long as this object lives. Throws SystemError.
  std::byte* shared(Bytes size);
  /// It is never released: kernels may still use it.
  void keep_for_good();

 private:
  struct Chunk {
    DeviceBlock device;
    PinnedMemory::Handle host;
    std::map<std::uint64_t, std::uint64_t> free;  ///< length by offset; no two are adjacent
  };
  static std::optional<std::uint64_t> take(Chunk& chunk, std::uint64_t size);

  DeviceBlocks& blocks_;
  std::vector<Chunk> chunks_;
  std::vector<DeviceBlock> shared_;
};

}  // namespace capstan
