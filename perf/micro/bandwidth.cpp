// SPDX-License-Identifier: Apache-2.0

// This file is compiled once per instruction-set target.
#include "perf/micro/bandwidth.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "perf/micro/bandwidth.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace capstan::perf::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<std::uint64_t>;

/// Software prefetch distance. It makes no difference in caches; main memory is up to a third
/// faster.
void fetch_ahead(const std::uint64_t* from) {
  hwy::Prefetch(from + 256);
}

/// Four streams, as far apart as possible.
void read_all(const std::uint64_t* from, std::size_t words) {
  const D d;
  const std::size_t quarter = words / 4, lanes = hn::Lanes(d);
  auto a = hn::Zero(d), b = a, c = a, e = a;
  for (std::size_t i = 0; i < quarter; i += lanes) {
    fetch_ahead(from + i), fetch_ahead(from + quarter + i);
    fetch_ahead(from + 2 * quarter + i), fetch_ahead(from + 3 * quarter + i);
    a = hn::Or(a, hn::Load(d, from + i));
    b = hn::Or(b, hn::Load(d, from + quarter + i));
    c = hn::Or(c, hn::Load(d, from + 2 * quarter + i));
    e = hn::Or(e, hn::Load(d, from + 3 * quarter + i));
  }
  volatile std::uint64_t used = hn::GetLane(hn::Or(hn::Or(a, b), hn::Or(c, e)));
  (void)used;
}

template <bool stream>
void put(hn::Vec<D> v, std::uint64_t* to) {
  if constexpr (stream) {
    hn::Stream(v, D(), to);
  } else {
    hn::Store(v, D(), to);
  }
}

template <bool stream>
void write_all(std::uint64_t* to, std::size_t words) {
  const auto value = hn::Set(D(), words);
  for (std::size_t i = 0; i < words; i += hn::Lanes(D())) put<stream>(value, to + i);
  hwy::FlushStream();
}

template <bool stream>
void copy_all(std::uint64_t* to, const std::uint64_t* from, std::size_t words) {
  const std::size_t lanes = hn::Lanes(D());
  for (std::size_t i = 0; i < words; i += 2 * lanes) {
    fetch_ahead(from + i), fetch_ahead(from + i + lanes);
    const auto a = hn::Load(D(), from + i), b = hn::Load(D(), from + i + lanes);
    put<stream>(a, to + i);
    put<stream>(b, to + i + lanes);
  }
  hwy::FlushStream();
}

void touch_words(Access access, std::uint64_t* to, const std::uint64_t* from, std::size_t words) {
  switch (access) {
    case Access::read:
      return read_all(from, words);
    case Access::write:
      return write_all<false>(to, words);
    case Access::streaming_write:
      return write_all<true>(to, words);
    case Access::copy:
      return copy_all<false>(to, from, words);
    case Access::streaming_copy:
      return copy_all<true>(to, from, words);
  }
}

}  // namespace capstan::perf::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace capstan::perf {

HWY_EXPORT(touch_words);

void touch(Access access, void* to, const void* from, std::size_t bytes) {
  HWY_DYNAMIC_DISPATCH(touch_words)
  (access, static_cast<std::uint64_t*>(to), static_cast<const std::uint64_t*>(from), bytes / 8);
}

std::size_t traffic(Access access, std::size_t bytes) {
  const bool both = access == Access::copy || access == Access::streaming_copy;
  return both ? 2 * bytes : bytes;
}

}  // namespace capstan::perf
#endif
