// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "capstan/quantity.hpp"
#include "core/schedule/lowering/slots.hpp"

namespace capstan {

/// A call of a rank, which its peers compare with their own calls. Written by the rank at the
/// start of each call; call n is in entry n % history_depth of the list. Comparing the history
/// compares all calls so far. Words become visible one by one, so a difference counts only if the
/// check says that all words are of the same call.
struct alignas(64) CallRecord {
  static constexpr std::size_t history_depth = 256;

  std::atomic<std::uint64_t> call;       ///< number of the call, from 1; written last
  std::atomic<std::uint64_t> signature;  ///< see CallMark
  std::atomic<std::uint64_t> count;
  std::atomic<std::uint64_t> root;
  std::atomic<std::uint64_t> tensor;
  std::atomic<std::uint64_t> history;  ///< digest of this and all calls before it
  std::atomic<std::uint64_t> check;    ///< digest of all of the above
};

/// The addresses of a call's buffers in the rank's own memory.
struct CallBuffers {
  std::atomic<std::uint64_t> input, output;
  /// The allocations that contain the buffers, if peers may map them (shared::AllocationId): the
  /// input's in the low bits, the output's in the high bits.
  std::atomic<std::uint64_t> allocations;
};

/// Why a rank has given up; adopted by all others.
struct alignas(64) AbortRecord {
  static constexpr std::size_t text_bytes = 3000;
  static constexpr std::size_t most_culprits = 8;

  struct Culprit {
    std::int32_t world_rank;
    std::int32_t state;  ///< Culprit::State
  };

  std::atomic<std::uint32_t> kind;  ///< 0: none; a FailureKind, written last
  std::int32_t lost;                ///< a rank of the communicator
  std::uint64_t culprit_count;
  Culprit culprits[most_culprits];
  char text[text_bytes];
};

/// The wait of a rank, for as long as it waits; see WaitBoard. Only the one in the segment of
/// the world is used. Words become visible one by one: the first is a checksum of the others.
struct alignas(64) WaitRecord {
  static constexpr std::size_t word_count = 16;

  std::atomic<std::uint64_t> words[word_count];
};
static_assert(sizeof(WaitRecord) == 128);

/// The details of a call of which a CallRecord has only a digest: the name of a user's operation or
/// of a foreign type, or the first of several counts. Written when the first call of a kind is
/// prepared, for errors.
struct alignas(64) CallNote {
  static constexpr std::size_t count_room = 24, name_room = 48;

  std::atomic<std::uint64_t> key;  ///< the mark's digest of it; 0: none; written last
  std::uint64_t counts;            ///< how many there are
  char name[name_room];
  std::uint64_t count[count_room];
};
static_assert(sizeof(CallNote) == 256);

/// A rank's part in the agreements by which those that are left after a failure continue; see
/// Survivors. Agreements are numbered from 1, and number n uses the entries n % 2: a rank begins an
/// agreement when all that are left have ended the one before it.
struct alignas(64) SurvivorRecord {
  /// A rank that is gone: as a rank of the communicator, with a bit where nothing but its silence
  /// tells so.
  using Gone = std::uint32_t;
  static constexpr Gone unreachable = 1U << 31U;
  static constexpr std::size_t most_gone = 120, announcement_bytes = 1024;

  struct Opinion {
    std::atomic<std::uint64_t> number;  ///< of the agreement; written last
    std::uint16_t agrees;
    std::uint16_t calls;  ///< the calls that agree, a bit for each
    std::uint32_t gone_count;
    Gone gone[most_gone];
  };

  Opinion votes[2];      ///< this rank's own
  Opinion estimates[2];  ///< what it takes for the result, when its turn has come
  std::byte announcement[announcement_bytes];  ///< belongs to the last vote
};

/// The owner of a segment, for those who look at a job from outside: see JobMember. Only that of a
/// world of processes has one.
struct alignas(64) JobRecord {
  std::atomic<std::uint64_t> layout;  ///< 0: none; written last
  std::uint64_t world;
  std::int32_t rank, ranks, process;
  char elsewhere[488];  ///< see JobMember::elsewhere; ends with a zero
};

/// Counts of what a rank has finished.
struct Finished {
  /// Over all calls. Peers may overwrite the staging buffers that the rank read in these blocks.
  std::atomic<std::uint64_t> blocks;
  std::atomic<std::uint64_t> calls;    ///< the calls that these blocks belong to
  std::atomic<std::uint64_t> history;  ///< CallRecord::history of the last of them
};

/// The begin of a segment. Written by the owner, read by all.
struct Control {
  static constexpr std::size_t note_count = 8;

  JobRecord job;
  alignas(64) Finished finished;
  alignas(64) std::atomic<std::uint32_t> left;               ///< the rank's communicator is gone
  alignas(64) std::atomic<std::uint32_t> uses_peer_buffers;  ///< at this moment
  CallRecord calls[CallRecord::history_depth];
  CallBuffers buffers[CallRecord::history_depth];
  AbortRecord abort;
  WaitRecord wait;
  CallNote notes[note_count];
  SurvivorRecord survivors;
};
static_assert(sizeof(Control) <= 32768);

/// One flag per peer, each in a line of its own.
struct alignas(64) Flag {
  static constexpr std::size_t history_depth = 4;

  std::atomic<std::uint64_t> signals;    ///< sent to the peer so far
  std::atomic<std::uint64_t> abandoned;  ///< times that the owner stopped waiting for the peer
  /// CallRecord::history of the calls of the last signals, that of call n in entry n %
  /// history_depth. A peer that finds its own history there need not read the record. Not shown to
  /// other hosts.
  std::atomic<std::uint64_t> histories[history_depth];
};
static_assert(sizeof(Flag) == 64);

/// The layout of a segment, the same on all ranks:
///
///   control | flag per peer | slots, by kind | messages
class SegmentLayout {
 public:
  /// `message_area`: the memory for messages between ranks, in all.
  SegmentLayout(int ranks, const SlotLayout& slots, Bytes message_area)
      : ranks_(static_cast<std::uint64_t>(ranks)), slots_(slots), message_area_(message_area) {}

  const SlotLayout& slots() const { return slots_; }
  Bytes flags() const { return whole_pages(Bytes{sizeof(Control)}); }
  Bytes first_slot() const { return flags() + whole_pages(Bytes{sizeof(Flag)} * ranks_); }
  Bytes messages() const { return first_slot() + slots_.total(); }
  Bytes total() const { return messages() + whole_pages(message_area_); }

 private:
  static Bytes whole_pages(Bytes bytes) {
    constexpr std::uint64_t page = 4096;
    return Bytes{(bytes.value() + page - 1) / page * page};
  }

  std::uint64_t ranks_;
  SlotLayout slots_;
  Bytes message_area_;
};

/// However far a rank runs ahead, its peers can still compare its calls.
static_assert([] {
  int calls = 0;
  for (const SlotKind kind : all_slot_kinds) calls += standard_slots.count[kind];
  return calls < static_cast<int>(CallRecord::history_depth);
}());

/// Typed views of a segment's parts.
inline const Control& control_of(const std::byte* segment) {
  return *reinterpret_cast<const Control*>(segment);
}
inline Control& control_of(std::byte* segment) {
  return *reinterpret_cast<Control*>(segment);
}
inline const Flag& flag_of(const std::byte* segment, const SegmentLayout& layout, Rank peer) {
  return reinterpret_cast<const Flag*>(segment + layout.flags().value())[peer.value()];
}
inline Flag& flag_of(std::byte* segment, const SegmentLayout& layout, Rank peer) {
  return reinterpret_cast<Flag*>(segment + layout.flags().value())[peer.value()];
}

}  // namespace capstan
