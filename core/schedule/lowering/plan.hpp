// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/registry.hpp"
#include "capstan/by_rank.hpp"
#include "core/schedule/lowering/call.hpp"
#include "core/schedule/lowering/lower.hpp"
#include "core/schedule/lowering/slots.hpp"

namespace capstan {

/// An operand with its byte offset from a base. Bases are numbered: the local buffers in the order
/// of Place, then the segments of all ranks, in which staging buffers lie, then the writable
/// aliases of these segments (see Link::writable_alias). Buffers of peers have no base.
struct BoundOperand {
  static constexpr std::uint32_t segment_of(Rank rank) {
    return static_cast<std::uint32_t>(Place::staging) + static_cast<std::uint32_t>(rank.value());
  }
  static constexpr std::uint32_t writable_alias(Rank rank, int ranks) {
    return segment_of(rank) + static_cast<std::uint32_t>(ranks);
  }

  Place place;
  std::uint32_t base;
  Rank owner;  ///< of staging buffers and of peers' buffers
  std::uint64_t offset;

  bool in_staging() const { return place == Place::staging; }
  bool in_peer_buffer() const { return is_buffer_of_peer(place); }
};

struct BoundOp {
  OpCode code;
  std::uint8_t destination_count;
  bool reaches_peers;     ///< buffers of other ranks are among the operands
  bool is_for_peers;      ///< the (first) destination is the rank's own staging buffer or a peer's
                          ///< output
  bool writes_peers_too;  ///< destinations after the first are outputs of peers
  std::uint32_t source_count;
  std::uint32_t first_operand;
  std::uint32_t divisor;  ///< for the kernel: > 1 where an average is completed
  Rank peer;
  std::uint32_t source_op;  ///< index in the program that this operation was made from
  std::uint64_t count;      ///< elements

  bool is_copy() const { return source_count == 1 && divisor == 1 && destination_count == 1; }
};

/// A program with offsets in bytes for one element size and the ranges of its phases.
struct BoundProgram {
  Program source;  ///< the program that this was made from, for proofs and reports
  std::vector<BoundOp> ops;
  std::vector<BoundOperand> operands;
  std::vector<std::uint32_t> phase_end;  ///< ops of phase k end here
  /// The ranks that read this rank's staging buffer; empty if the program writes nothing there.
  /// Shared with the slots that are written.
  SlotReaders readers;
};

/// Everything that one rank needs to run one kind of call again and again. Made once, never
/// changed. Holds nothing of the processor or device that runs it: an executor adds that (see
/// HostPlan).
/// A long operation is a stream of blocks; see block_shapes().
struct Plan {
  Call call;
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::staged;
  SlotKind slots = SlotKind::staging;
  SlotPlaces places{};
  std::uint64_t blocks = 1;
  std::uint64_t phases = 1;
  Elements block_count{};  ///< elements per block (of each rank's part, where buffers have parts)
  std::vector<BoundProgram> programs{};
  std::vector<std::uint32_t> program_of{};  ///< by block; empty: the first for all
  Bytes element{};
  std::uint64_t packet_elements = 0;  ///< elements that one packet holds
  bool exceeds_cache = false;         ///< the buffers of all ranks exceed it together
  std::uint32_t most_sources = 0;     ///< of any operation
  Bytes scratch{};
  CallMark mark{};           ///< peers compare it with their own
  std::uint64_t digest = 0;  ///< of the mark
  Guarantees guarantees{};
  /// The last phase in which any program reads a staging buffer. One for all programs, as blocks
  /// have to be finished in order.
  std::uint64_t last_reading_phase = 0;
  Bytes input_bytes{}, output_bytes{};  ///< of the caller's buffers
  std::vector<Rank> pushed_to{};        ///< peers on other hosts that the rank sends to
  std::vector<Rank> remote_writers{};   ///< peers on other hosts whose staging buffers are read

  /// Round t runs phase k of block t-k, for each k.
  std::uint64_t rounds() const { return blocks + phases - 1; }
  /// Whether the rank publishes that a block is finished after this phase of it, before the call
  /// ends.
  bool publishes(std::uint64_t block, std::uint64_t phase) const {
    return phase == last_reading_phase && !guarantees.bounded_skew && block + 1 < blocks;
  }
  const BoundProgram& program(std::uint64_t index) const {
    return programs[program_of.empty() ? 0 : program_of[index]];
  }
};

/// The selector's decision about a call.
struct Choice {
  const Algorithm* algorithm = nullptr;
  Protocol protocol = Protocol::staged;
  std::string reason{};
  double nanoseconds = 0;           ///< predicted
  std::uint64_t times_shorter = 1;  ///< the usual block length over the block length

  /// "staged, in blocks of 1/4 of the usual length".
  std::string manner() const;
};

/// The shapes of the blocks that a call is cut into: block b holds elements [b·length,
/// (b+1)·length) of the buffers, or of each rank's part of them.
std::vector<Shape> block_shapes(const Call& call, Elements length);

/// The usual length of a block grows with the number of ranks up to this.
inline constexpr Bytes largest_block{4 << 20};

/// Limits by which calls are cut into blocks and bound: the same on all ranks.
struct PlanLimits {
  Bytes block{};  ///< the usual length of a block, at most
  /// Where a rank's input and output are longer than this (the mean over ranks), they exceed the
  /// caches.
  Bytes cached_buffers{};
  /// Reads of staging buffers this long use their writable alias; see Link::writable_alias.
  Bytes long_read{std::numeric_limits<std::uint64_t>::max()};
};

/// The length of the blocks that a call is cut into: of the whole buffer, or of each rank's part.
Elements block_length(const Call& call, const Choice& choice, const Hosts& hosts,
                      const PlanLimits& limits, const SlotLayout& layout);

/// Makes the plan of `self` for a call over the ranks of `hosts`. Blocks are made smaller until
/// every rank's staging buffer fits its slot: the same on every rank. Throws InvalidArgument when a
/// packet staging buffer would not fit (the selector asks fits_packets first).
Plan make_plan(const Call& call, const Choice& choice, const Hosts& hosts, Rank self,
               const PlanLimits& limits, const SlotLayout& layout);

/// The plans of all ranks for a call in blocks of `block` elements. Cheaper than one by one.
ByRank<Plan> make_plans(const Call& call, const Choice& choice, const Hosts& hosts, Elements block,
                        const SlotLayout& layout, Bytes long_read);

/// Whether an algorithm may run in this protocol. Packets are for equal blocks only. Buffers are
/// read only within one host, and only for algorithms that send mostly out of buffers.
bool runs_in(const Algorithm& algorithm, Protocol protocol, const Hosts& hosts);

/// The slots by which ranks exchange data that lie in such memory.
constexpr const SlotPool& slots_for(MemoryKind memory) {
  return memory == MemoryKind::device ? device_slots : standard_slots;
}

/// Whether the largest staging buffer that any rank needs in this packet protocol fits a packet
/// slot: that of the call, or, where calls in packets are cut, of the shortest block. Calls with
/// counts use no packets.
bool fits_packets(const Algorithm& algorithm, Protocol protocol, const Hosts& hosts,
                  const Call& call, const SlotPool& pool);
inline bool fits_packets(const Algorithm& algorithm, Protocol protocol, const Hosts& hosts,
                         const Call& call) {
  return fits_packets(algorithm, protocol, hosts, call, slots_for(call.memory));
}

}  // namespace capstan
