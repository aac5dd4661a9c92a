// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <utility>

#include "kernels/cpu/small_float.hpp"
#include "kernels/device/machine.hpp"
#include "kernels/emulation/block.hpp"

namespace capstan::kernels::device {

/// A device whose threads are threads of the processor. They yield at random, by a seed, so that
/// runs differ in who is ahead of whom. Sanitizers see each access.
///
/// `block` may be null in a kernel whose threads never meet: see run_in_turn().
template <unsigned warp>
class EmulatedMachine {
 public:
  static constexpr unsigned warp_size = warp;
  static constexpr unsigned most_loads = warp < 32 ? 2 : 4;  // both that devices have

  EmulatedMachine(const EmulatedPlace& place, EmulatedBlock* block, std::uint64_t seed)
      : place_(place), block_(block), random_(static_cast<std::minstd_rand::result_type>(seed)) {}

  unsigned thread() const { return place_.thread; }
  unsigned threads() const { return place_.threads; }
  unsigned block() const { return place_.block; }
  unsigned blocks() const { return place_.blocks; }

  template <class Word>
  Word load(const Word* from) const {
    Word value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }
  template <class Word>
  void store(Word* to, const Word& value) const {
    std::memcpy(to, &value, sizeof value);
  }

  std::uint64_t poll(const std::uint64_t* from) const {
    yield_at_random();
    return __atomic_load_n(from, __ATOMIC_RELAXED);
  }
  /// Ordered only by release(): the word itself is then published with what was written before.
  void raise(std::uint64_t* to, std::uint64_t value) const {
    __atomic_store_n(to, value,
                     std::exchange(released_, false) ? __ATOMIC_RELEASE : __ATOMIC_RELAXED);
    yield_at_random();
  }
  /// Two halves: what a reader gets is checked by its words.
  Pack poll_pack(const Pack* from) const {
    yield_at_random();
    const auto* const halves = reinterpret_cast<const std::uint64_t*>(from);
    const std::uint64_t both[] = {__atomic_load_n(&halves[0], __ATOMIC_RELAXED),
                                  __atomic_load_n(&halves[1], __ATOMIC_RELAXED)};
    return std::bit_cast<Pack>(both);
  }
  void raise_pack(Pack* to, const Pack& value) const {
    struct Halves {
      std::uint64_t at[2];
    };
    const auto both = std::bit_cast<Halves>(value);
    auto* const halves = reinterpret_cast<std::uint64_t*>(to);
    __atomic_store_n(&halves[0], both.at[0], __ATOMIC_RELAXED);
    yield_at_random();
    __atomic_store_n(&halves[1], both.at[1], __ATOMIC_RELAXED);
  }
  void release() const { released_ = true; }
  void retire() const { released_ = true; }
  void hand_over() const { released_ = true; }
  void renew(const std::uint64_t* word) const { acquire(word); }
  void acquire(const std::uint64_t* word) const { __atomic_load_n(word, __ATOMIC_ACQUIRE); }

  void sync_block() const {
    yield_at_random();
    block_->meet();
  }
  template <class Word>
  Word shuffle(Word value, unsigned lane) const {
    return block_->exchange(place_.thread, warp, value, lane);
  }
  void pause() const { std::this_thread::yield(); }

  float half_to_float(std::uint16_t bits) const { return to_float(Float16{bits}); }
  std::uint16_t float_to_half(float value) const { return from_float<Float16>(value).bits; }

 private:
  void yield_at_random() const {
    if (random_() % 8 == 0) std::this_thread::yield();
  }

  const EmulatedPlace place_;
  EmulatedBlock* const block_;
  mutable std::minstd_rand random_;
  mutable bool released_ = false;
};

}  // namespace capstan::kernels::device
