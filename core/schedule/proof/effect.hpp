// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "capstan/quantity.hpp"

namespace capstan::proof {

// The data of the machine: effects of steps on memories, and the flaws that it may find.

/// A kind of error that a proof finds.
enum class Flaw : std::uint8_t {
  deadlock,        ///< ranks wait for signals that never come
  imbalance,       ///< a signal or a put that no wait takes
  race,            ///< two accesses to an element, one of them a write, in no certain order
  out_of_range,    ///< an access outside a buffer
  uninitialized,   ///< a read of an element that no rank has written in this call
  input_written,   ///< the caller's input is changed
  missing,         ///< a contribution is not in the result
  doubled,         ///< a contribution is in the result more than once
  misplaced,       ///< a contribution of another element, or of another call
  unfinished,      ///< the result was not marked as complete
  overdone,        ///< the result was marked as complete, but is no sum over all ranks
  reduced_twice,   ///< a complete element was reduced again
  out_of_order,    ///< a sum is not in the order of ranks, as the algorithm promises
  unlike_sums,     ///< ranks add in different orders, so that results may round differently
  unsynchronized,  ///< a rank may return before another has entered, against the promise
  extents,         ///< ranks disagree about the length of their scratch, or it is too long
  phases,          ///< ranks disagree about the number of phases, or there are too many
  no_such_rank     ///< a step names a peer that is none of the ranks
};

std::string_view name_of(Flaw flaw);

struct Finding {
  Flaw flaw{};
  Rank rank{};
  int step = -1;  ///< of the rank's schedule; -1: none in particular
  std::string message;
};

/// Memory that belongs to a rank. The same buffer has another `instance` for each block (input,
/// output) or slot (scratch, staging buffers).
struct Memory {
  enum class Kind : std::uint8_t { input, output, scratch, staging, packets };

  Kind kind = Kind::input;
  Rank owner{};
  int region = 0;  ///< staging buffers and packets
  std::int64_t instance = 0;
  /// Staging buffers and packets: the mirror of them at this rank, on another host.
  std::optional<Rank> viewer{};
  /// Blocks of one form divide scratch, staging buffers and packets alike. When a block of another
  /// form uses them, what they held is lost.
  int form = 0;

  auto operator<=>(const Memory&) const = default;
};

std::string to_string(const Memory& memory);
/// "rank 3".
std::string rank_name(Rank rank);

/// A piece of memory; its length is the effect's.
struct Piece {
  Memory memory{};
  Elements offset{};
};

/// The effect of a step, in terms that schedules and lowered programs share.
struct Effect {
  enum class Kind : std::uint8_t {
    transfer,  ///< destinations = sum of the sources
    put,       ///< a transfer that lands at some time before the peer sees the next signal
    flush,     ///< up to here the sources of puts to the peer may still have been read
    signal,
    wait,
    enter,    ///< enter a call: its input and output exist from here ...
    leave,    ///< ... to here; puts of this rank have landed
    finish,   ///< publish that this rank reads nothing of a block any more, if peers share memory
    tell,     ///< tell a peer that does not share memory which blocks are finished
    acquire,  ///< wait until the peers, or all ranks, are known to have finished the block
    notify    ///< wake the peer if it sleeps: packets published for it may be read
  };

  Kind kind = Kind::transfer;
  bool completes = false;
  bool synchronizes = false;  ///< leave: all ranks must have entered before
  bool one_by_one = false;    ///< a transfer that waits for, moves and publishes each element alone
  int call = 0;
  int block = 0;  ///< numbered through all calls; enter: the instance of input and output
  int step = -1;
  Rank peer{};
  std::vector<Rank> peers{};  ///< acquire; empty: all ranks
  Elements length{};
  std::vector<Piece> destinations{}, sources{};
  std::string_view text{};  ///< for messages; the text must outlive the machine
};

/// Facts about the memories that effects name.
class Layout {
 public:
  virtual ~Layout() = default;
  /// The number of elements of a memory that may be accessed.
  virtual Elements extent(const Memory& memory) const = 0;
  /// The memory in which a piece lies: in place, pieces of input and output share memory.
  virtual Piece home(const Piece& piece) const { return piece; }
  /// The number of the element at a piece's offset, for messages.
  virtual Elements element_at(const Piece& piece) const { return piece.offset; }
  /// Whether each rank sees the other's stores to its own memory without a push.
  virtual bool shares_memory(Rank, Rank) const { return true; }
};

}  // namespace capstan::proof
