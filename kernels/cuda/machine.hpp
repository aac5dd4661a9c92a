// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/device/machine.hpp"

namespace capstan::kernels::device {

/// CUDA's devices, from sm_80 on.
struct CudaMachine {
  static constexpr unsigned warp_size = 32;
  /// From sm_100 on ptxas spills up to 160 bytes a thread with four.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
  static constexpr unsigned most_loads = 2;
#else
  static constexpr unsigned most_loads = 4;
#endif

  __device__ unsigned thread() const { return threadIdx.x; }
  __device__ unsigned threads() const { return blockDim.x; }
  __device__ unsigned block() const { return blockIdx.x; }
  __device__ unsigned blocks() const { return gridDim.x; }

  template <class Word>
  __device__ Word load(const Word* from) const {
    return *from;
  }
  __device__ Pack load(const Pack* from) const {
    return std::bit_cast<Pack>(*reinterpret_cast<const uint4*>(from));
  }
  template <class Word>
  __device__ void store(Word* to, Word value) const {
    *to = value;
  }
  __device__ void store(Pack* to, const Pack& value) const {
    *reinterpret_cast<uint4*>(to) = std::bit_cast<uint4>(value);
  }

  __device__ std::uint64_t poll(const std::uint64_t* from) const {
    std::uint64_t value;
    asm volatile("ld.relaxed.sys.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
    return value;
  }
  __device__ void raise(std::uint64_t* to, std::uint64_t value) const {
    asm volatile("st.relaxed.sys.u64 [%0], %1;" ::"l"(to), "l"(value) : "memory");
  }
  /// Each half arrives as a whole, as the hardware has it; PTX promises it for 4 bytes alone.
  __device__ Pack poll_pack(const Pack* from) const {
    Pack value;
    asm volatile("ld.volatile.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.words[0]), "=r"(value.words[1]), "=r"(value.words[2]),
                   "=r"(value.words[3])
                 : "l"(from)
                 : "memory");
    return value;
  }
  __device__ void raise_pack(Pack* to, const Pack& value) const {
    asm volatile("st.volatile.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(value.words[0]),
                 "r"(value.words[1]), "r"(value.words[2]), "r"(value.words[3])
                 : "memory");
  }
  __device__ void release() const { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
  /// A load has completed once the thread has used its value: a barrier of the compiler suffices.
  __device__ void retire() const { asm volatile("" ::: "memory"); }
  /// All stores of a device go to one cache, where they are before the host can have seen the word.
  __device__ void hand_over() const { retire(); }
  /// A thread makes no store before it is certain that it will: the loop that polls decides that.
  /// The other threads of its block come behind sync_block.
  __device__ void renew(const std::uint64_t*) const { asm volatile("" ::: "memory"); }
  __device__ void acquire(const std::uint64_t*) const {
    asm volatile("fence.acq_rel.sys;" ::: "memory");
  }

  __device__ void sync_block() const { __syncthreads(); }
  template <class Word>
  __device__ Word shuffle(Word value, unsigned lane) const {
    return __shfl_sync(0xffff'ffffU, value, static_cast<int>(lane));
  }
  __device__ void pause() const { __nanosleep(20); }

  __device__ float half_to_float(std::uint16_t bits) const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
  /// The instruction's NaN is another one.
  __device__ std::uint16_t float_to_half(float value) const {
    std::uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return value == value ? bits : std::uint16_t{0x7e00};
  }
};

}  // namespace capstan::kernels::device
