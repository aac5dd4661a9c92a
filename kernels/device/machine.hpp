// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "kernels/device/attributes.hpp"

namespace capstan::kernels::device {

/// 16 bytes: the most that one instruction of a thread loads or stores.
struct alignas(16) Pack {
  std::uint32_t words[4];
};

/// The interface of the device that runs the kernels. Kernels are templates over it, and exist for
/// CUDA, for HIP and, with threads of the processor, for tests.
///
///   thread, threads, block, blocks   the position in the block and of the block in the grid
///   load, store                      ordinary memory: words of 1 to 8 bytes, or a Pack, aligned
///   poll, raise                      a word that other blocks, devices or the host access at the
///                                    same time. Neither orders any other access.
///   poll_pack, raise_pack            the same for a Pack: each half of it arrives as a whole
///   release                          after it, what this thread raises is seen only together with
///                                    all that its block has written before its last sync_block
///   retire                           after it, what this thread raises is seen only when its block
///                                    has read all that it has read before its last sync_block
///   hand_over                        after it, what this thread raises is seen only when kernels
///                                    of this device that begin later see what its block has
///                                    written before its last sync_block
///   renew(word)                      after poll has returned the awaited value of the word: what
///                                    this thread's block writes after its next sync_block is not
///                                    seen by what was retired before that value was raised
///   acquire(word)                    after poll has returned the awaited value of the word: this
///                                    thread sees what was written before that value was raised,
///                                    and so does its block after sync_block
///   sync_block                       all threads of the block arrive, and see each other's writes
///   shuffle(value, lane)             the value of another thread of the warp; all of it take part
///   pause                            a short while in a loop that polls
///   half_to_float, float_to_half     IEEE binary16, rounded to nearest even. A NaN becomes the
///                                    canonical one where it is converted to 16 bits.
///
/// `Machine::warp_size` is 32 or 64 on devices; the emulation has smaller ones, too.
/// `Machine::most_loads` is how many sources of a reduction a thread loads at a time: as many as
/// its registers hold.
template <class M>
concept Machine = requires(const M& m, std::uint64_t* word, Pack* pack, float value) {
  { M::warp_size + 0U } -> std::same_as<unsigned>;
  { M::most_loads + 0U } -> std::same_as<unsigned>;
  { m.thread() } -> std::same_as<unsigned>;
  { m.threads() } -> std::same_as<unsigned>;
  { m.block() } -> std::same_as<unsigned>;
  { m.blocks() } -> std::same_as<unsigned>;
  { m.load(word) } -> std::same_as<std::uint64_t>;
  m.store(word, *word);
  { m.poll(word) } -> std::same_as<std::uint64_t>;
  m.raise(word, *word);
  { m.poll_pack(pack) } -> std::same_as<Pack>;
  m.raise_pack(pack, *pack);
  m.release();
  m.retire();
  m.hand_over();
  m.renew(word);
  m.acquire(word);
  m.sync_block();
  { m.shuffle(*word, 0U) } -> std::same_as<std::uint64_t>;
  m.pause();
  { m.half_to_float(std::uint16_t{}) } -> std::same_as<float>;
  { m.float_to_half(value) } -> std::same_as<std::uint16_t>;
};

}  // namespace capstan::kernels::device
