// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/platform/memory/pinned_memory.hpp"
#include "kernels/device/program.hpp"

namespace capstan {

/// The words that the kernels of a rank and the host share, in pinned memory: which calls have
/// begun and ended, and whether waits have to end. Reading them asks no driver. Thread-safe.
class DeviceWords {
 public:
  DeviceWords(PinnedMemory& memory, int lanes);

  int lanes() const { return lanes_; }
  /// Makes kernels use these words.
  void put_into(kernels::device::ProgramArguments& arguments) const;
  /// Ends all waits of kernels, now and later.
  void abort();
  /// Whether a call has begun, and whether so many lanes of it have ended.
  bool has_begun(std::uint64_t number) const { return value(begun_word) >= number; }
  bool has_ended(std::uint64_t number, std::uint64_t lanes) const;
  /// They are never released: kernels may still use them.
  void keep_for_good();

 private:
  static constexpr std::uint64_t abort_word = 0, begun_word = 1, ended_words = 2;
  std::uint64_t* word(std::uint64_t index) const;
  std::uint64_t value(std::uint64_t index) const;

  const int lanes_;
  PinnedMemory::Handle words_;
};

}  // namespace capstan
