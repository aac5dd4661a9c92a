// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/machine.hpp"

namespace capstan::kernels::device {

/// AMD's devices, through the compiler's own functions: no header of HIP is needed.
struct HipMachine {
  /// By the family: compilers are dropping the macro that says the size.
#if defined(__GFX9__) || !defined(__HIP_DEVICE_COMPILE__)
  static constexpr unsigned warp_size = 64;
#else
  static constexpr unsigned warp_size = 32;
#endif
  static constexpr unsigned most_loads = 4;

  CAPSTAN_DEVICE unsigned thread() const { return __builtin_amdgcn_workitem_id_x(); }
  CAPSTAN_DEVICE unsigned threads() const { return __builtin_amdgcn_workgroup_size_x(); }
  CAPSTAN_DEVICE unsigned block() const { return __builtin_amdgcn_workgroup_id_x(); }
  CAPSTAN_DEVICE unsigned blocks() const {
    return __builtin_amdgcn_grid_size_x() / __builtin_amdgcn_workgroup_size_x();
  }

  template <class Word>
  CAPSTAN_DEVICE Word load(const Word* from) const {
    return *from;
  }
  template <class Word>
  CAPSTAN_DEVICE void store(Word* to, Word value) const {
    *to = value;
  }

  CAPSTAN_DEVICE std::uint64_t poll(const std::uint64_t* from) const {
    return __atomic_load_n(from, __ATOMIC_RELAXED);
  }
  CAPSTAN_DEVICE void raise(std::uint64_t* to, std::uint64_t value) const {
    __atomic_store_n(to, value, __ATOMIC_RELAXED);
  }
  /// Two halves, each strong and each with its own tag. A volatile access of all 16 bytes would be
  /// one instruction, but the compiler then waits for each before the next: several packs, which
  /// may come over a link, would take as long as all of them one after another.
  CAPSTAN_DEVICE Pack poll_pack(const Pack* from) const {
    const auto* const halves = reinterpret_cast<const std::uint64_t*>(from);
    const Halves both{poll(halves), poll(halves + 1)};
    return std::bit_cast<Pack>(both);
  }
  CAPSTAN_DEVICE void raise_pack(Pack* to, const Pack& value) const {
    const auto both = std::bit_cast<Halves>(value);
    auto* const halves = reinterpret_cast<std::uint64_t*>(to);
    raise(halves, both.low);
    raise(halves + 1, both.high);
  }
  CAPSTAN_DEVICE void release() const { __builtin_amdgcn_fence(__ATOMIC_RELEASE, ""); }
  CAPSTAN_DEVICE void retire() const { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); }
  /// A device may have several caches of the second level, which the end of the kernel would flush.
  CAPSTAN_DEVICE void hand_over() const { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "agent"); }
  CAPSTAN_DEVICE void renew(const std::uint64_t*) const {
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  }
  CAPSTAN_DEVICE void acquire(const std::uint64_t*) const {
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "");
  }

  CAPSTAN_DEVICE void sync_block() const {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  }
  CAPSTAN_DEVICE std::uint32_t shuffle(std::uint32_t value, unsigned lane) const {
    return static_cast<std::uint32_t>(
        __builtin_amdgcn_ds_bpermute(static_cast<int>(4 * lane), static_cast<int>(value)));
  }
  CAPSTAN_DEVICE std::uint64_t shuffle(std::uint64_t value, unsigned lane) const {
    const std::uint64_t low = shuffle(static_cast<std::uint32_t>(value), lane);
    const std::uint64_t high = shuffle(static_cast<std::uint32_t>(value >> 32), lane);
    return high << 32 | low;
  }
  CAPSTAN_DEVICE void pause() const { __builtin_amdgcn_s_sleep(1); }

  CAPSTAN_DEVICE float half_to_float(std::uint16_t bits) const {
    return static_cast<float>(std::bit_cast<_Float16>(bits));
  }
  CAPSTAN_DEVICE std::uint16_t float_to_half(float value) const {
    return std::bit_cast<std::uint16_t>(static_cast<_Float16>(value));
  }

 private:
  struct Halves {
    std::uint64_t low, high;
  };
};

}  // namespace capstan::kernels::device
