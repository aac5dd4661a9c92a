// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// Programs as the executor on a device reads them: made by the host once per plan, the same for
/// each launch, so that a captured graph may repeat it. All that changes from call to call is in
/// memory of the device, and the kernel itself advances it.
///
/// A rank has a segment, which its peers map, and lanes. A lane is a thread block, and has its own
/// signals, slots and numbers: lane l of n runs the blocks l, l+n, l+2n, ... of a call, and meets
/// only the same lanes of its peers.
///
///   segment:  | lane 0: signals by sender, finished by reader, packets, staging | lane 1: ... |
namespace capstan::kernels::device {

/// A packet holds this much data, as lowering has it (core/schedule/lowering/slots.hpp) ...
inline constexpr std::uint64_t packet_words = 7, packet_payload = 8 * packet_words;
/// ... and takes this much memory on a device: each 8 bytes of data lie beside their tag in a Pack.
inline constexpr std::uint64_t packet_stride = 128;

struct ProgramOperand {
  std::uint32_t base;    ///< 0 input, 1 output, 2 scratch, then the segments of the ranks
  std::uint32_t staged;  ///< 1: the offset counts from the block's slot
  std::uint64_t offset;
};

enum class ProgramCode : std::uint32_t { gather, signal, wait };

struct ProgramOp {
  ProgramCode code;
  std::uint32_t meets = 0;  ///< 1: all threads have done what is before it
  // The members of a gather.
  std::uint32_t destination_count = 0, source_count = 0;
  std::uint32_t first_source = 0;  ///< of the block's operands; destinations come behind
  std::uint32_t divisor = 0;
  std::uint64_t staged_destinations = 0, staged_sources = 0;  ///< a bit for each
  std::uint64_t count = 0;                                    ///< elements
  // The members of signals and waits.
  std::uint64_t peers = 0;  ///< a bit for each
};

/// The program of a block: the part of a call that one lane runs at a time.
struct ProgramBlock {
  std::uint32_t first_op, end_op, first_operand, end_operand;
  std::uint64_t readers;  ///< ranks that await what the block stages, a bit for each; 0: none
  std::uint64_t writers;  ///< ranks of which the block awaits something
};

/// The state of a lane from call to call, in memory that only the lane uses. All zero at first.
struct LaneState {
  static constexpr std::uint32_t most_ranks = 64, most_slots = 8;

  struct Slot {
    std::uint64_t readers, must_finish;
  };
  std::uint64_t blocks;            ///< that it has run
  std::uint64_t slots_used[2];     ///< of staging, of packets
  Slot slots[2][most_slots];       ///< the last block in each
  std::uint64_t sent[most_ranks];  ///< signals, by receiver
  std::uint64_t consumed[most_ranks];
};

/// Where things lie in a segment; the same for all ranks.
struct SegmentShape {
  std::uint64_t lane_bytes;        ///< from one lane to the next
  std::uint64_t slots_begin[2];    ///< in a lane: of staging, of packets
  std::uint64_t slot_distance[2];  ///< from one slot's first region to the next slot's
  std::uint32_t slot_count[2];
  std::uint32_t ranks;

  static constexpr std::uint64_t signals = 0;
  constexpr std::uint64_t finished() const { return ranks * sizeof(std::uint64_t); }
  /// The slot of a block before which so many have been used, and where it lies in a lane. The
  /// executor and the proof call these functions.
  constexpr std::uint64_t slot(std::uint32_t kind, std::uint64_t used) const {
    return used % slot_count[kind];
  }
  constexpr std::uint64_t slot_offset(std::uint32_t kind, std::uint64_t slot) const {
    return slots_begin[kind] + slot * slot_distance[kind];
  }
};

struct ProgramArguments {
  SegmentShape shape;
  std::uint32_t self, packets;  ///< packets: 1 in a packet protocol
  std::uint64_t block_count;
  std::uint64_t block_distance;  ///< bytes from one block's part of input and output to the next's
  std::uint32_t last_block;      ///< the program of the last block; 0 is that of all others
  const ProgramBlock* blocks;    ///< the programs
  const ProgramOp* ops;
  const ProgramOperand* operands;
  std::byte* const* segments;  ///< by rank
  std::byte* input;
  std::byte* output;
  std::byte* scratch;           ///< of lane 0
  std::uint64_t scratch_bytes;  ///< of a lane
  LaneState* lanes;
  const void** pointers;  ///< room for the operands of a block, for each lane
  std::uint32_t most_operands;
  const std::uint64_t* abort;  ///< another value than 0 ends all waits: what comes out is undefined
  /// Words of the host that get the number of the call: [0] when lane 0 begins, [1 + lane] when a
  /// lane has ended and touches nothing any more; null: none.
  std::uint64_t* progress = nullptr;
  std::uint64_t number = 0;

  constexpr std::uint32_t program_of(std::uint64_t block) const {
    return block + 1 == block_count ? last_block : 0;
  }
};

}  // namespace capstan::kernels::device
