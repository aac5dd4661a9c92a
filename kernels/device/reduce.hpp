// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kernels/device/elements.hpp"
#include "kernels/device/memory.hpp"

/// The n-ary reduction on a device. Each source is read once, each destination written once:
///
///   elements:  | head | hunks: a warp times `unroll` packs | packs | tail |
///              to a 16-byte boundary of the first destination
///
/// A thread combines what lies at the same place in all sources, and writes it: a destination may
/// be a source.
namespace capstan::kernels::device {

/// destination[k] = source[0] op source[1] op ..., in this order. Operands have any alignment.
struct Reduction {
  void* const* destinations;
  const void* const* sources;
  std::uint32_t destination_count, source_count;
  std::uint32_t divisor;  ///< of an average: more than 1 where it is completed
  std::uint64_t element_count;
};

/// The threads that share a reduction: a block, or a grid. A multiple of the warp, warp by warp.
struct Team {
  std::uint32_t thread, threads;
};
template <class M>
CAPSTAN_DEVICE Team block_of(const M& m) {
  return {m.thread(), m.threads()};
}
template <class M>
CAPSTAN_DEVICE Team grid_of(const M& m) {
  return {m.block() * m.threads() + m.thread(), m.blocks() * m.threads()};
}

CAPSTAN_DEVICE const std::byte* at(const void* base, std::uint64_t offset) {
  return static_cast<const std::byte*>(base) + offset;
}
CAPSTAN_DEVICE std::byte* at(void* base, std::uint64_t offset) {
  return static_cast<std::byte*>(base) + offset;
}

/// Whether all operands begin on a 16-byte boundary together.
CAPSTAN_DEVICE bool aligned_alike(const Reduction& call) {
  const auto first = reinterpret_cast<std::uintptr_t>(call.destinations[0]);
  std::uintptr_t differing = 0;
  for (std::uint32_t d = 1; d < call.destination_count; ++d)
    differing |= reinterpret_cast<std::uintptr_t>(call.destinations[d]) ^ first;
  for (std::uint32_t s = 0; s < call.source_count; ++s)
    differing |= reinterpret_cast<std::uintptr_t>(call.sources[s]) ^ first;
  return differing % sizeof(Pack) == 0;
}

/// Deals `bytes` bytes to the threads of a team: calls work.template packs<unroll, true>(m, offset)
/// for so many packs, a warp apart, packs<1, false> for one, and work.element(m, offset) for
/// elements before and after. Hunks need operands that are aligned alike; others go in narrower
/// words.
template <std::size_t element, int unroll, class M, class Work>
CAPSTAN_DEVICE void deal(const M& m, Team team, std::uint64_t bytes, const Work& work) {
  const std::uint64_t to_boundary =
      -reinterpret_cast<std::uintptr_t>(work.call.destinations[0]) % sizeof(Pack);
  const bool reached = to_boundary % element == 0;
  const std::uint64_t head = !reached ? 0 : to_boundary < bytes ? to_boundary : bytes;
  const std::uint64_t packs = (bytes - head) / sizeof(Pack);
  const std::uint64_t tail = head + packs * sizeof(Pack);

  constexpr std::uint64_t hunk = std::uint64_t{unroll} * M::warp_size;
  const std::uint32_t lane = team.thread % M::warp_size, warps = team.threads / M::warp_size;
  const bool in_hunks = reached && packs >= hunk && aligned_alike(work.call);
  const std::uint64_t hunks = in_hunks ? packs / hunk : 0;
  for (std::uint64_t h = team.thread / M::warp_size; h < hunks; h += warps)
    work.template packs<unroll, true>(m, head + (h * hunk + lane) * sizeof(Pack));
  for (std::uint64_t p = hunks * hunk + team.thread; p < packs; p += team.threads)
    work.template packs<1, false>(m, head + p * sizeof(Pack));

  const std::uint64_t ends = head + (bytes - tail);
  for (std::uint64_t e = team.thread * element; e < ends; e += team.threads * element)
    work.element(m, e < head ? e : tail + (e - head));
}

/// Bytes that are copied as they are.
struct CopyWork {
  const Reduction& call;

  template <int count, bool aligned, class M>
  CAPSTAN_DEVICE void packs(const M& m, std::uint64_t offset) const {
    Pack held[count];
    CAPSTAN_UNROLL
    for (int i = 0; i < count; ++i)
      held[i] =
          load_pack<aligned>(m, at(call.sources[0], offset + i * sizeof(Pack) * M::warp_size));
    for (std::uint32_t d = 0; d < call.destination_count; ++d) {
      if (call.destinations[d] == call.sources[0]) continue;
      CAPSTAN_UNROLL
      for (int i = 0; i < count; ++i)
        store_pack<aligned>(m, at(call.destinations[d], offset + i * sizeof(Pack) * M::warp_size),
                            held[i]);
    }
  }
  template <class M>
  CAPSTAN_DEVICE void element(const M& m, std::uint64_t offset) const {
    const auto value = load_element<std::uint8_t>(m, at(call.sources[0], offset));
    for (std::uint32_t d = 0; d < call.destination_count; ++d)
      if (call.destinations[d] != call.sources[0])
        store_element(m, at(call.destinations[d], offset), value);
  }
};

template <class T, ReduceOp op>
struct ReduceWork {
  static constexpr int in_pack = sizeof(Pack) / sizeof(T);
  struct Elements {
    T at[in_pack];
  };
  const Reduction& call;

  template <int count, bool aligned, class M>
  CAPSTAN_DEVICE void load(const M& m, std::uint32_t source, std::uint64_t offset,
                           Pack (&held)[count]) const {
    CAPSTAN_UNROLL
    for (int i = 0; i < count; ++i)
      held[i] =
          load_pack<aligned>(m, at(call.sources[source], offset + i * sizeof(Pack) * M::warp_size));
  }

  template <int count, bool aligned, class M>
  CAPSTAN_DEVICE void packs(const M& m, std::uint64_t offset) const {
    Wide<T> sums[count][in_pack];
    Pack held[count];
    load<count, aligned>(m, 0, offset, held);
    for_each_element<count>(held,
                            [&](int i, int e, T value) { sums[i][e] = lift<op>(widen(m, value)); });
    for (std::uint32_t s = 1; s < call.source_count; ++s) {
      load<count, aligned>(m, s, offset, held);
      for_each_element<count>(held, [&](int i, int e, T value) {
        sums[i][e] = combine<op>(sums[i][e], lift<op>(widen(m, value)));
      });
    }
    CAPSTAN_UNROLL
    for (int i = 0; i < count; ++i) {
      Elements results;
      CAPSTAN_UNROLL
      for (int e = 0; e < in_pack; ++e)
        results.at[e] = narrow<T>(m, finish<op>(sums[i][e], call.divisor));
      held[i] = std::bit_cast<Pack>(results);
    }
    for (std::uint32_t d = 0; d < call.destination_count; ++d) {
      CAPSTAN_UNROLL
      for (int i = 0; i < count; ++i)
        store_pack<aligned>(m, at(call.destinations[d], offset + i * sizeof(Pack) * M::warp_size),
                            held[i]);
    }
  }
  template <class M>
  CAPSTAN_DEVICE void element(const M& m, std::uint64_t offset) const {
    Wide<T> value = lift<op>(widen(m, load_element<T>(m, at(call.sources[0], offset))));
    for (std::uint32_t s = 1; s < call.source_count; ++s)
      value =
          combine<op>(value, lift<op>(widen(m, load_element<T>(m, at(call.sources[s], offset)))));
    const T result = narrow<T>(m, finish<op>(value, call.divisor));
    for (std::uint32_t d = 0; d < call.destination_count; ++d)
      store_element(m, at(call.destinations[d], offset), result);
  }

 private:
  template <int count, class Body>
  static CAPSTAN_DEVICE void for_each_element(const Pack (&held)[count], const Body& body) {
    CAPSTAN_UNROLL
    for (int i = 0; i < count; ++i) {
      const auto elements = std::bit_cast<Elements>(held[i]);
      CAPSTAN_UNROLL
      for (int e = 0; e < in_pack; ++e) body(i, e, elements.at[e]);
    }
  }
};

template <class M>
CAPSTAN_DEVICE_CALL void copy(const M& m, Team team, const Reduction& call, std::uint64_t bytes) {
  deal<1, 4>(m, team, bytes, CopyWork{call});
}

/// One source is copied bit for bit, or divided.
template <class T, ReduceOp op, class M>
CAPSTAN_DEVICE_CALL void reduce(const M& m, Team team, const Reduction& call) {
  const std::uint64_t bytes = call.element_count * sizeof(T);
  if (call.source_count == 1 && call.divisor <= 1) return copy(m, team, call, bytes);
  // Up to 64 registers hold sums.
  constexpr int widened = sizeof(Pack) / sizeof(T) * sizeof(Wide<T>);
  constexpr int unroll = widened <= 16 ? 4 : widened <= 32 ? 2 : 1;
  deal<sizeof(T), unroll>(m, team, bytes, ReduceWork<T, op>{call});
}

}  // namespace capstan::kernels::device
