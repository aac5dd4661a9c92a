// SPDX-License-Identifier: Apache-2.0
#include "core/engine/executor/device_words.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

namespace capstan {

DeviceWords::DeviceWords(PinnedMemory& memory, int lanes)
    : lanes_(lanes),
      words_(memory.allocate(
          Bytes{sizeof(std::uint64_t) * (ended_words + static_cast<std::uint64_t>(lanes))})) {
  std::ranges::fill(words_.bytes(), std::byte{0});
}

void DeviceWords::put_into(kernels::device::ProgramArguments& arguments) const {
  arguments.abort = word(abort_word);
  arguments.progress = word(begun_word);
}

void DeviceWords::abort() {
  std::atomic_ref{*word(abort_word)}.store(1, std::memory_order_release);
}

bool DeviceWords::has_ended(std::uint64_t number, std::uint64_t lanes) const {
  for (std::uint64_t lane = 0; lane < lanes; ++lane)
    if (value(ended_words + lane) < number) return false;
  return true;
}

void DeviceWords::keep_for_good() {
  capstan::keep_for_good(std::make_shared<PinnedMemory::Handle>(std::move(words_)));
}

std::uint64_t DeviceWords::value(std::uint64_t index) const {
  return std::atomic_ref{*word(index)}.load(std::memory_order_acquire);
}

std::uint64_t* DeviceWords::word(std::uint64_t index) const {
  return reinterpret_cast<std::uint64_t*>(words_.data()) + index;
}

}  // namespace capstan
