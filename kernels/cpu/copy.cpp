// SPDX-License-Identifier: Apache-2.0

// The copy kernels of all targets: this file is compiled once per target.
#include "kernels/cpu/highway.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/copy.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/targets.hpp"

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr std::size_t cache_line = 64;

/// The prefetch distance of the source. Measured on copies of main memory: 25 to 30 % faster than
/// without, with no difference from 512 to 2048 bytes.
constexpr std::size_t prefetch_distance = 2048;

/// Copies the whole blocks of `bytes`. Returns their size. `to` is the start of a cache line.
template <bool streams>
HWY_INLINE std::size_t copy_blocks(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  using D = hn::Simd<std::uint8_t, HWY_LANES(std::uint8_t), 0>;
  constexpr std::size_t lanes = hn::MaxLanes(D()), block = 4 * lanes;
  const auto store = [](auto vector, std::uint8_t* place) HWY_ATTR {
    streams ? hn::Stream(vector, D(), place) : hn::Store(vector, D(), place);
  };
  std::size_t i = 0;
  for (; bytes - i >= block; i += block) {
    for (std::size_t line = 0; streams && line < block; line += cache_line)
      hwy::Prefetch(from + i + prefetch_distance + line);
    const auto a = hn::LoadU(D(), from + i);
    const auto b = hn::LoadU(D(), from + i + lanes);
    const auto c = hn::LoadU(D(), from + i + 2 * lanes);
    const auto d = hn::LoadU(D(), from + i + 3 * lanes);
    store(a, to + i);
    store(b, to + i + lanes);
    store(c, to + i + 2 * lanes);
    store(d, to + i + 3 * lanes);
  }
  return i;
}

template <bool streams>
void copy_by_vectors(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  const std::size_t head = -reinterpret_cast<std::uintptr_t>(to) % cache_line;
  std::memcpy(to, from, head);
  const std::size_t end = head + copy_blocks<streams>(to + head, from + head, bytes - head);
  std::memcpy(to + end, from + end, bytes - end);
  if (streams) hwy::FlushStream();
}

/// Whether `rep movsb`, by which memcpy copies this much, is slow: on AMD's Zen 3 it copies 3 GB/s
/// instead of 50 to 90 where the destination's offset in a page is 1 to 31 bytes above the
/// source's, and at 63 bytes still a quarter less. This is how a buffer from malloc(), 16 bytes
/// above the start of a page, lies to a slot.
// measured: docs/lab-notebook.md#rep-movsb-and-malloc
bool slows_rep_movsb(const std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  constexpr std::uintptr_t page = 4096;
  constexpr std::size_t shortest = 1024;
  const std::uintptr_t above =
      (reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from)) % page;
  return HWY_ARCH_X86 && bytes >= shortest && above > 0 && above < cache_line;
}

/// Copies in pieces: above the size of L2, some versions of memcpy stop using `rep movsb`, which
/// writes lines that another core has read several times as fast as stores do.
void copy_cached(std::uint8_t* to, const std::uint8_t* from, std::size_t bytes) {
  constexpr std::size_t piece = 128 << 10;
  if (slows_rep_movsb(to, from, bytes)) return copy_by_vectors<false>(to, from, bytes);
  for (; bytes > piece; bytes -= piece, to += piece, from += piece) std::memcpy(to, from, piece);
  std::memcpy(to, from, bytes);
}

void copy(void* destination, const void* source, std::size_t bytes, bool stream) {
  // Streaming pays from some lines on; single lanes have no non-temporal store.
  constexpr std::size_t worth_streaming = 1024;
  const bool can_stream = HWY_ARCH_X86 && HWY_LANES(std::uint8_t) > 1;
  auto* const to = static_cast<std::uint8_t*>(destination);
  const auto* const from = static_cast<const std::uint8_t*>(source);
  if (stream && can_stream && bytes >= worth_streaming) {
    copy_by_vectors<true>(to, from, bytes);
  } else if (bytes > 0) {
    copy_cached(to, from, bytes);
  }
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::kernels {
constinit const TargetTable<CopyKernel> copies = CAPSTAN_TARGET_TABLE(copy);
}
#endif
