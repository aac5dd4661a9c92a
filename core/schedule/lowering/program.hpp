// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "capstan/schedule.hpp"
#include "core/schedule/lowering/slots.hpp"

namespace capstan {

/// Memory that a lowered program addresses. A staging buffer belongs to one rank. Only this rank
/// writes it, and its peers read it in place. Protocols that read buffers also address the input
/// and output of peers; `write_output` writes the output of peers.
enum class Place : std::uint8_t { input, output, scratch, staging, peer_input, peer_output };

inline constexpr bool is_buffer_of_peer(Place place) {
  return place >= Place::peer_input;
}

/// A relocatable operand of a lowered program. Its length is the operation's.
struct Operand {
  Place place = Place::input;
  Rank owner;               ///< of staging buffers and of peers' buffers
  std::uint8_t region = 0;  ///< staging buffer only: 0 for data of phase 0, 1 for later phases
  Elements offset{};

  bool operator==(const Operand&) const = default;
};

/// The kinds of lowered operations.
///
///   gather   destinations = source 0 ⊕ source 1 ⊕ ...; one source is a copy. In a packet program
///            reading a peer's staging buffer waits for the packets, and writing the rank's own
///            staging buffer sends them.
///   push     send the source to a peer without shared memory, which sees it at the destination: a
///            place in its mirror of this rank's staging buffer
///   flush    wait until nothing that was pushed to the peer is read here any more
///   signal   raise the flag that the peer watches
///   wait     until the peer's next signal
///   notify   packets for the peer have been sent: wake it should it sleep
enum class OpCode : std::uint8_t { gather, push, flush, signal, wait, notify };

inline constexpr bool has_operands(OpCode code) {
  return code <= OpCode::push;
}

struct Op {
  OpCode code = OpCode::gather;
  bool completes = false;
  std::uint8_t phase = 0;
  /// More than 1 if the result also goes to the rank's own staging buffer or to peers.
  std::uint8_t destination_count = 0;
  std::uint32_t source_count = 0;
  std::uint32_t first_operand = 0;  ///< destinations, then sources
  std::uint32_t step = 0;           ///< the schedule's step that this came from
  Rank peer{};                      ///< all but gather
  Elements length{};
};

/// How much of each operand a reduction fetches through the kernel at a time, so that all operands
/// together fit a core's cache.
// measured: docs/lab-notebook.md#huge-pages
constexpr Bytes fetched_piece(std::size_t operands) {
  constexpr std::uint64_t most = 256 << 10, least = 4 << 10, all = 768 << 10;
  return Bytes{std::clamp(all / operands / least * least, least, most)};
}

/// A schedule made ready for the links at hand. Every put to a peer that shares memory has become a
/// write to the rank's own staging buffer (one write, however many peers it is for), every other
/// put a push to where that peer sees the staging buffer, every landing a read of a peer's staging
/// buffer at the place where it is used.
struct Program {
  Rank self;
  bool packets = false;  ///< payload and tag share a cache line; see slots.hpp
  int phases = 1;
  Extents extents;  ///< scratch is 0 when all landings are read in place
  /// Extent of the rank's own staging buffer, by region.
  std::array<Elements, staging_regions> staging{};
  std::vector<Op> ops;
  std::vector<Operand> operands;

  std::span<const Operand> destinations(const Op& op) const {
    return std::span{operands}.subspan(op.first_operand, op.destination_count);
  }
  std::span<const Operand> sources(const Op& op) const {
    return std::span{operands}.subspan(op.first_operand + op.destination_count, op.source_count);
  }
};

/// The ranks that the program signals about its own staging buffer. Empty if the program writes
/// nothing there.
std::vector<Rank> readers_of(const Program& program);

/// The ranks whose signals or packets the program awaits.
std::vector<Rank> writers_to(const Program& program);

/// The last phase in which the program reads a staging buffer.
int last_reading_phase(const Program& program);

/// Whether `op` has a destination in a peer's output besides its first one.
bool writes_peers_too(const Program& program, const Op& op);

/// One operation as text, e.g. "gather input[0,4), rank 1 staging[0,4) -> output[0,4)".
std::string to_string(const Program& program, const Op& op);

}  // namespace capstan
