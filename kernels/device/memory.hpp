// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/device/machine.hpp"

/// Loads and stores at any alignment, by the widest words that the address allows. Where threads of
/// a warp access one Pack after another, their addresses are aligned alike.
namespace capstan::kernels::device {

/// 1, 2, 4, 8 or 16.
CAPSTAN_DEVICE std::uintptr_t alignment_of(const std::byte* at) {
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(at) | sizeof(Pack);
  return address & -address;
}

template <class Word>
struct Words {
  Word at[sizeof(Pack) / sizeof(Word)];
};

template <class Word, class M>
CAPSTAN_DEVICE Pack load_words(const M& m, const std::byte* from) {
  Words<Word> words;
  CAPSTAN_UNROLL
  for (unsigned i = 0; i < sizeof(Pack) / sizeof(Word); ++i)
    words.at[i] = m.load(reinterpret_cast<const Word*>(from) + i);
  return std::bit_cast<Pack>(words);
}
template <class Word, class M>
CAPSTAN_DEVICE void store_words(const M& m, std::byte* to, const Pack& pack) {
  const auto words = std::bit_cast<Words<Word>>(pack);
  CAPSTAN_UNROLL
  for (unsigned i = 0; i < sizeof(Pack) / sizeof(Word); ++i)
    m.store(reinterpret_cast<Word*>(to) + i, words.at[i]);
}

/// `aligned`: the address is known to be.
template <bool aligned, class M>
CAPSTAN_DEVICE Pack load_pack(const M& m, const std::byte* from) {
  const auto alignment = alignment_of(from);
  if (aligned || alignment >= sizeof(Pack)) return m.load(reinterpret_cast<const Pack*>(from));
  if (alignment >= 4) return load_words<std::uint32_t>(m, from);
  return alignment == 2 ? load_words<std::uint16_t>(m, from) : load_words<std::uint8_t>(m, from);
}
template <bool aligned, class M>
CAPSTAN_DEVICE void store_pack(const M& m, std::byte* to, const Pack& pack) {
  const auto alignment = alignment_of(to);
  if (aligned || alignment >= sizeof(Pack)) return m.store(reinterpret_cast<Pack*>(to), pack);
  if (alignment >= 4) return store_words<std::uint32_t>(m, to, pack);
  if (alignment == 2) return store_words<std::uint16_t>(m, to, pack);
  store_words<std::uint8_t>(m, to, pack);
}

/// The word as wide as an element.
template <std::size_t bytes>
using WordOf = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t,
                       std::conditional_t<bytes == 4, std::uint32_t,
                                          std::conditional_t<bytes == 8, std::uint64_t, Pack>>>>;

/// A single element, at any address.
template <class T, class M>
CAPSTAN_DEVICE T load_element(const M& m, const std::byte* from) {
  using Word = WordOf<sizeof(T)>;
  if (alignment_of(from) >= sizeof(T))
    return std::bit_cast<T>(m.load(reinterpret_cast<const Word*>(from)));
  struct {
    std::uint8_t at[sizeof(T)];
  } bytes;
  for (unsigned i = 0; i < sizeof(T); ++i)
    bytes.at[i] = m.load(reinterpret_cast<const std::uint8_t*>(from) + i);
  return std::bit_cast<T>(bytes);
}
template <class T, class M>
CAPSTAN_DEVICE void store_element(const M& m, std::byte* to, T value) {
  using Word = WordOf<sizeof(T)>;
  if (alignment_of(to) >= sizeof(T))
    return m.store(reinterpret_cast<Word*>(to), std::bit_cast<Word>(value));
  struct Bytes {
    std::uint8_t at[sizeof(T)];
  };
  const auto bytes = std::bit_cast<Bytes>(value);
  for (unsigned i = 0; i < sizeof(T); ++i)
    m.store(reinterpret_cast<std::uint8_t*>(to) + i, bytes.at[i]);
}

}  // namespace capstan::kernels::device
