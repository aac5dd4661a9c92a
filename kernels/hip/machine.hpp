// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/machine.hpp"

namespace capstan::kernels::device {

/// AMD's devices, through the compiler's own functions: no header of HIP is needed.
struct HipMachine {
  static constexpr unsigned warp_size = __AMDGCN_WAVEFRONT_SIZE;

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
  /// Vectors, so that each is one instruction.
  using Vector = std::uint32_t __attribute__((ext_vector_type(4)));
  CAPSTAN_DEVICE Pack poll_pack(const Pack* from) const {
    return std::bit_cast<Pack>(*reinterpret_cast<const volatile Vector*>(from));
  }
  CAPSTAN_DEVICE void raise_pack(Pack* to, const Pack& value) const {
    *reinterpret_cast<volatile Vector*>(to) = std::bit_cast<Vector>(value);
  }
  CAPSTAN_DEVICE void release() const { __builtin_amdgcn_fence(__ATOMIC_RELEASE, ""); }
  CAPSTAN_DEVICE void retire() const { __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup"); }
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
};

}  // namespace capstan::kernels::device
