// SPDX-License-Identifier: Apache-2.0

// The loops of the n-ary reduction. Compiled once per target.
//
//   elements:  | head     | blocks of 4 vectors ...      | vectors | 1/2 | 1/4 | ... | 1 |
//              to a 64-byte boundary                      the rest, each part at most once
//
// Short calls run the last part only, so that they do not pay for the set-up of the others.
#if defined(CAPSTAN_KERNELS_REDUCE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef CAPSTAN_KERNELS_REDUCE_INL_HPP
#undef CAPSTAN_KERNELS_REDUCE_INL_HPP
#else
#define CAPSTAN_KERNELS_REDUCE_INL_HPP
#endif

#include <hwy/cache_control.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/codec-inl.hpp"
#include "kernels/cpu/operations-inl.hpp"
#include "kernels/cpu/reduce.hpp"

HWY_BEFORE_NAMESPACE();
namespace capstan::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t cache_line = 64;
inline constexpr std::size_t vectors_per_block = 4;

template <class T>
inline constexpr std::size_t full_vector = HWY_LANES(T);
template <class T>
inline constexpr std::size_t block = vectors_per_block * full_vector<T>;

/// The sources, typed. A fixed count lets the compiler keep them in registers; 0 means any count.
template <class T, std::size_t count>
class Sources {
 public:
  explicit Sources(const Reduction& r) {
    for (std::size_t s = 0; s < count; ++s) at_[s] = static_cast<const T*>(r.sources[s]);
  }
  static constexpr std::size_t size() { return count; }
  HWY_INLINE const T* operator[](std::size_t s) const { return at_[s]; }

 private:
  const T* at_[count];
};

template <class T>
class Sources<T, 0> {
 public:
  explicit Sources(const Reduction& r) : at_(r.sources), size_(r.source_count) {}
  std::size_t size() const { return size_; }
  HWY_INLINE const T* operator[](std::size_t s) const { return static_cast<const T*>(at_[s]); }

 private:
  const void* const* at_;
  std::size_t size_;
};

// Operations work on one register; these apply them to the two halves of wide elements.
template <class Op, class V>
HWY_INLINE V lift(const Op& op, V v) {
  return op.lift(v);
}
template <class Op, class V>
HWY_INLINE Pair<V> lift(const Op& op, Pair<V> v) {
  return {op.lift(v.first), op.lift(v.second)};
}
template <class Op, class V>
HWY_INLINE V combine(const Op& op, V a, V b) {
  return op.combine(a, b);
}
template <class Op, class V>
HWY_INLINE Pair<V> combine(const Op& op, Pair<V> a, Pair<V> b) {
  return {op.combine(a.first, b.first), op.combine(a.second, b.second)};
}
template <class Op, class V>
HWY_INLINE V finish(const Op& op, V v) {
  return op.finish(v);
}
template <class Op, class V>
HWY_INLINE Pair<V> finish(const Op& op, Pair<V> v) {
  return {op.finish(v.first), op.finish(v.second)};
}

/// The destinations of a result.
template <class T>
struct Sink {
  Sink(bool past_cache, const Reduction& r)
      : stream(past_cache),
        more(r.second_destination != nullptr || r.further_count > 0),
        destination(static_cast<T*>(r.destination)),
        call(r) {}

  const bool stream, more;
  T* const destination;
  const Reduction& call;

  /// One place after the other, so that the questions are asked once for all vectors.
  template <class D, std::size_t vectors>
  HWY_INLINE void store(D d, const hn::Vec<D> (&results)[vectors], std::size_t i) const {
    put(d, results, destination + i, stream);
    if (!more) return;
    if (call.second_destination != nullptr)
      put(d, results, static_cast<T*>(call.second_destination) + i, false);
    for (std::size_t k = 0; k < call.further_count; ++k)
      put(d, results, static_cast<T*>(call.further[k]) + i, stream);
  }

 private:
  template <class D, std::size_t vectors>
  static HWY_INLINE void put(D d, const hn::Vec<D> (&results)[vectors], T* to, bool past_cache) {
    constexpr std::size_t lanes = hn::MaxLanes(D());
    auto* const raw = reinterpret_cast<hn::TFromD<D>*>(to);
    if (past_cache) {
      HWY_UNROLL(4)
      for (std::size_t v = 0; v < vectors; ++v) hn::Stream(results[v], d, raw + v * lanes);
    } else {
      HWY_UNROLL(4)
      for (std::size_t v = 0; v < vectors; ++v) hn::StoreU(results[v], d, raw + v * lanes);
    }
  }
};

/// Reduces elements i .. i + vectors*lanes. Reads all sources before it writes, so that the
/// destination may be one of them.
template <std::size_t lanes, std::size_t vectors, class T, class Op, class From, class To>
HWY_INLINE void reduce_vectors(const Op& op, const From& sources, const To& to, std::size_t i) {
  using C = Codec<T, lanes>;
  decltype(C::load(nullptr)) sums[vectors];
  HWY_UNROLL(4)
  for (std::size_t v = 0; v < vectors; ++v) sums[v] = lift(op, C::load(sources[0] + i + v * lanes));
  for (std::size_t s = 1; s < sources.size(); ++s) {
    const T* from = sources[s] + i;
    HWY_UNROLL(4)
    for (std::size_t v = 0; v < vectors; ++v) {
      sums[v] = combine(op, sums[v], lift(op, C::load(from + v * lanes)));
    }
  }
  hn::Vec<typename C::StoredTag> results[vectors];
  HWY_UNROLL(4)
  for (std::size_t v = 0; v < vectors; ++v) results[v] = C::encode(finish(op, sums[v]));
  to.store(typename C::StoredTag(), results, i);
}

/// Reduces the last, incomplete vector: one bit of the remaining count at a time.
template <std::size_t lanes, class T, class Op, class From, class To>
HWY_INLINE void reduce_partial_vector(const Op& op, const From& sources, const To& to,
                                      std::size_t i, std::size_t count) {
  if ((count & lanes) != 0) {
    reduce_vectors<lanes, 1, T>(op, sources, to, i);
    i += lanes;
  }
  if constexpr (lanes > 1) reduce_partial_vector<lanes / 2, T>(op, sources, to, i, count);
}

/// Reduces any range. No unrolling, which does not pay for short ranges.
template <class T, class Op>
HWY_NOINLINE void reduce_short(const Op& op, const Reduction& r, std::size_t i, std::size_t end) {
  const Sources<T, 0> sources(r);
  const Sink<T> to{false, r};
  for (; end - i >= full_vector<T>; i += full_vector<T>) {
    reduce_vectors<full_vector<T>, 1, T>(op, sources, to, i);
  }
  if constexpr (full_vector < T >> 1) {
    reduce_partial_vector<full_vector<T> / 2, T>(op, sources, to, i, end - i);
  }
}

/// The prefetch distance of sources. Measured: without prefetching, main memory is read half as
/// fast; distances from 2048 to 4096 bytes differ little.
inline constexpr std::size_t fetched_ahead = 3072;

/// Prefetches the source lines `fetched_ahead` bytes behind block i.
template <class T, class From>
HWY_INLINE void fetch_ahead(const From& sources, std::size_t i) {
  for (std::size_t s = 0; s < sources.size(); ++s) {
    const auto* const line = reinterpret_cast<const std::uint8_t*>(sources[s] + i) + fetched_ahead;
    for (std::size_t at = 0; at < block<T> * sizeof(T); at += cache_line) hwy::Prefetch(line + at);
  }
}

/// The end of prefetching. Nothing behind it is fetched, as other ranks may be writing there.
template <class T>
HWY_INLINE std::size_t end_of_fetching(const Reduction& r, std::size_t end) {
  constexpr std::size_t ahead = fetched_ahead / sizeof(T);
  const std::size_t wanted = end + r.following;
  if (!r.fetch_ahead || wanted < ahead) return 0;
  return wanted - ahead < end ? wanted - ahead : end;
}

/// Reduces the whole blocks that fit before `end`. Returns their end.
template <class T, std::size_t source_count, class Op>
HWY_NOINLINE std::size_t reduce_blocks(bool stream, const Op& op, const Reduction& r, std::size_t i,
                                       std::size_t end) {
  const Sources<T, source_count> sources(r);
  const Sink<T> to{stream, r};
  const std::size_t last = end_of_fetching<T>(r, end);
  for (; end - i >= block<T>; i += block<T>) {
    if (i + block<T> <= last) fetch_ahead<T>(sources, i);
    reduce_vectors<full_vector<T>, vectors_per_block, T>(op, sources, to, i);
  }
  return i;
}

/// Up to how many sources have a loop of their own: four for operations that programs use often.
/// Each loop is compiled for each type and target.
template <class Op>
inline constexpr std::size_t unrolled_sources = 2;
template <>
inline constexpr std::size_t unrolled_sources<Sum> = 4;
template <>
inline constexpr std::size_t unrolled_sources<Min> = 4;
template <>
inline constexpr std::size_t unrolled_sources<Max> = 4;
template <class Lane>
inline constexpr std::size_t unrolled_sources<Average<Lane>> = 4;
template <>
inline constexpr std::size_t unrolled_sources<LogicalAnd> = 0;
template <>
inline constexpr std::size_t unrolled_sources<LogicalOr> = 0;
template <>
inline constexpr std::size_t unrolled_sources<LogicalXor> = 0;

template <class T, class Op>
std::size_t reduce_blocks_of_any_count(bool stream, const Op& op, const Reduction& r,
                                       std::size_t i) {
  if constexpr (unrolled_sources<Op> >= 4) {
    if (r.source_count == 3) return reduce_blocks<T, 3>(stream, op, r, i, r.element_count);
    if (r.source_count == 4) return reduce_blocks<T, 4>(stream, op, r, i, r.element_count);
  }
  if constexpr (unrolled_sources<Op> >= 2)
    if (r.source_count == 2) return reduce_blocks<T, 2>(stream, op, r, i, r.element_count);
  return reduce_blocks<T, 0>(stream, op, r, i, r.element_count);
}

/// The number of elements before the first cache line that begins within `destination`. Zero if no
/// element begins on a line.
template <class T>
std::size_t elements_to_cache_line(const void* destination) {
  const std::size_t bytes = -reinterpret_cast<std::uintptr_t>(destination) % cache_line;
  return bytes % sizeof(T) == 0 ? bytes / sizeof(T) : 0;
}

/// Aligns stores to lines: non-temporal ones write whole lines, others are faster when aligned.
template <class T, class Op>
HWY_NOINLINE void reduce_long(const Op& op, const Reduction& r) {
  std::size_t i = elements_to_cache_line<T>(r.destination);
  reduce_short<T>(op, r, 0, i);
  const auto starts_line = [i](const void* place) {
    return reinterpret_cast<std::uintptr_t>(static_cast<const T*>(place) + i) % cache_line == 0;
  };
  bool stream = r.stream_destination && starts_line(r.destination);
  for (std::size_t k = 0; k < r.further_count; ++k) stream = stream && starts_line(r.further[k]);
  i = reduce_blocks_of_any_count<T>(stream, op, r, i);
  if (stream) hwy::FlushStream();
  reduce_short<T>(op, r, i, r.element_count);
}

template <class T, class Op>
void reduce_with(const Op& op, const Reduction& r) {
#if HWY_TARGET != HWY_SCALAR  // the baseline, which no processor of today runs
  // Long enough that at least a block follows the head.
  if (r.element_count >= block<T> + cache_line / sizeof(T)) return reduce_long<T>(op, r);
#endif
  reduce_short<T>(op, r, 0, r.element_count);
}

inline void copy_single_source(const Reduction& r, std::size_t bytes) {
  const void* source = r.sources[0];
  if (r.second_destination != nullptr) copy(r.second_destination, source, bytes, false);
  if (r.destination != source) copy(r.destination, source, bytes, r.stream_destination);
  for (std::size_t k = 0; k < r.further_count; ++k)
    if (r.further[k] != source) copy(r.further[k], source, bytes, r.stream_destination);
}

/// The kernel of operations other than average.
template <class T, class Op>
void reduce(const Reduction& r) {
  if (r.source_count == 1) return copy_single_source(r, r.element_count * sizeof(T));
  reduce_with<T>(Op(r), r);
}

/// The kernel of average: `Lane` is the type that is divided.
template <class T, class SumOf, class Lane>
void average(const Reduction& r) {
  if (r.divisor <= 1) return reduce<SumOf, Sum>(r);
  reduce_with<T>(Average<Lane>(r), r);
}

/// The kernels of element type T, which may be added (`SumOf`) and multiplied (`ProductOf`) as
/// another type where that gives the same bits. What is not zero is so in `SumOf` as well.
template <class T, class SumOf, class ProductOf, class Lane>
ReduceKernel kernel_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return reduce<SumOf, Sum>;
    case ReduceOp::product:
      return reduce<ProductOf, Product>;
    case ReduceOp::min:
      return reduce<T, Min>;
    case ReduceOp::max:
      return reduce<T, Max>;
    case ReduceOp::average:
      return average<T, SumOf, Lane>;
    case ReduceOp::logical_and:
      return reduce<SumOf, LogicalAnd>;
    case ReduceOp::logical_or:
      return reduce<SumOf, LogicalOr>;
    case ReduceOp::logical_xor:
      return reduce<SumOf, LogicalXor>;
    default:
      break;
  }
  if constexpr (std::is_integral_v<SumOf>) {
    if (op == ReduceOp::bit_and) return reduce<SumOf, BitAnd>;
    if (op == ReduceOp::bit_or) return reduce<SumOf, BitOr>;
    if (op == ReduceOp::bit_xor) return reduce<SumOf, BitXor>;
  }
  return nullptr;
}

}  // namespace capstan::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
