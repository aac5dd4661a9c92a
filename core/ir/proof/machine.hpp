#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/ir/proof/value.hpp"
#include "core/ir/quantity.hpp"

namespace capstan::proof {

/// What was found wrong.
enum class Flaw : std::uint8_t {
  deadlock,        ///< ranks wait for signals that never come
  imbalance,       ///< a signal or a put that nobody waits for
  race,            ///< two accesses to an element, one of them a write, in no certain order
  out_of_range,    ///< an access outside a buffer
  uninitialized,   ///< a read of what nobody has written in this call
  input_written,   ///< the caller's input is changed
  missing,         ///< a contribution is not in the result
  doubled,         ///< a contribution is in the result more than once
  misplaced,       ///< a contribution of another element, or of another call
  unfinished,      ///< the result was not marked as complete
  overdone,        ///< the result was marked as complete, but is no sum over all ranks
  reduced_twice,   ///< a complete element was reduced again
  out_of_order,    ///< a sum is not in the order of ranks, as the algorithm promises
  unsynchronized,  ///< a rank may return before another has entered, against the promise
  extents          ///< ranks disagree about the length of their scratch
};

std::string_view name_of(Flaw flaw);

struct Finding {
  Flaw flaw{};
  Rank rank{};
  int step = -1;  ///< of the rank's schedule; -1: none in particular
  std::string message;
};

/// Memory that belongs to a rank. `instance` tells apart what the same buffer is in different
/// blocks (input, output) or slots (scratch, boards).
struct Memory {
  enum class Kind : std::uint8_t { input, output, scratch, board, packets };

  Kind kind = Kind::input;
  Rank owner{};
  int region = 0;  ///< boards and packets
  int instance = 0;
  int viewer = -1;  ///< boards and packets: the mirror of them at this rank, on another host

  auto operator<=>(const Memory&) const = default;
};

std::string to_string(const Memory& memory);

/// A piece of memory; its length is the effect's.
struct Piece {
  Memory memory{};
  Elements offset{};
};

/// What a step does, in terms that schedules and lowered programs share.
struct Effect {
  enum class Kind : std::uint8_t {
    transfer,  ///< destinations = sum of the sources
    put,       ///< a transfer that lands at some time before the peer sees the next signal
    flush,     ///< until here what was put to the peer may have been read
    signal,
    wait,
    enter,   ///< into a call: its input and output exist from here ...
    leave,   ///< ... to here; own puts have landed
    finish,  ///< with a block: nothing of it is read any more
    acquire  ///< wait until the peers, or all ranks, have finished the block
  };

  Kind kind = Kind::transfer;
  bool completes = false;
  bool synchronizes = false;  ///< leave: by now all ranks must have entered
  int call = 0;
  int block = 0;  ///< numbered through all calls
  int step = -1;
  Rank peer{};
  std::vector<int> peers{};  ///< acquire; nobody in particular: all ranks
  Elements length{};
  std::vector<Piece> destinations{}, sources{};
  std::string text{};  ///< for messages
};

/// What the machine has to know of the memories that effects name.
class Layout {
 public:
  virtual ~Layout() = default;
  /// How many elements of a memory may be accessed.
  virtual Elements extent(const Memory& memory) const = 0;
  /// Where a piece lies: in place, pieces of input and output share memory.
  virtual Piece home(const Piece& piece) const { return piece; }
};

/// Executes one list of effects per rank, symbolically, and reports everything that could go wrong
/// in any interleaving.
///
/// Signals never block and the k-th wait for a peer takes its k-th signal, so what a rank does
/// depends on nothing but the order of its own steps: one execution meets every deadlock, and the
/// vector clocks of that execution (Fidge 1988, Mattern 1989) give the exact order "a happens
/// before b in every execution". Two conflicting accesses without such an order are a race, whether
/// or not this execution shows it. Puts land as late as they may, at the wait that takes their
/// signal. Reading packets waits for the write that publishes them.
class Machine {
 public:
  /// `layout` is kept by reference.
  Machine(std::vector<std::vector<Effect>> scripts, const Layout& layout);

  /// Runs all ranks to the end or into a deadlock.
  void run();

  const std::vector<Finding>& findings() const { return findings_; }
  void report(Flaw flaw, Rank rank, int step, std::string message);
  /// What an element holds at the end.
  ValueId value_at(const Piece& piece);
  Values& values() { return values_; }

 private:
  using Clock = std::vector<int>;  // by rank: how many of its effects are known to have happened

  struct Access {
    int rank = -1;
    int time = 0;         // of `rank`'s own effects: whoever knows of it knows of the access
    int issuer = -1;      // a put is also known to be done by whoever knows that its issuer ...
    int issuer_call = 0;  // ... has left this call
    int step = -1;
  };
  struct Cell {
    ValueId value = Values::nothing;
    Access written;
    std::vector<Access> read;  // since then
  };
  struct Put {
    const Effect* effect;
    Clock issued;
    std::vector<ValueId> values;
  };
  struct Signal {
    Clock clock;
    std::vector<Put> puts;  // that land before it is seen
  };

  bool step(int rank);
  bool wait(int rank, const Effect& effect);
  bool packets_ready(const Effect& effect);
  void transfer(int rank, const Effect& effect);
  bool copies_to_itself(const Effect& effect) const;
  void check_overlap(int rank, const Effect& effect);
  void put(int rank, const Effect& effect);
  void flush(int rank, const Effect& effect);
  void land(const Put& put, int issuer, int taken_by, int time);
  void enter(int rank, const Effect& effect);
  void leave(int rank, const Effect& effect);
  void check_owner_is_in(int rank, const Effect& effect, const Memory& memory);
  void check_owner_has_entered(int rank, const Effect& effect, const Memory& memory);
  void check_buffers_are_free(int rank, int call, const Clock& now);
  bool acquire(int rank, const Effect& effect);
  void report_deadlock();
  void report_unheard();

  std::vector<ValueId> read(int rank, const Effect& effect);
  void write(const Effect& effect, const Piece& piece, const std::vector<ValueId>& values,
             const Clock& known, const Access& access);
  ValueId combine(int rank, const Effect& effect, ValueId a, ValueId b);
  ValueId complete(int rank, const Effect& effect, ValueId value);
  bool in_range(int rank, const Effect& effect, const Piece& piece);
  bool before(const Access& access, const Clock& known) const;
  void race(const Effect& effect, const Access& other, int rank, const Memory& memory,
            std::size_t element, const char* what);
  Cell* cells(const Piece& piece, Elements length);
  Clock& tick(int rank);

  const std::vector<std::vector<Effect>> scripts_;
  const Layout& layout_;
  Values values_;
  std::vector<std::size_t> next_;  // by rank: the effect to run
  std::vector<Clock> clocks_;
  std::map<Memory, std::vector<Cell>> memory_;
  std::map<std::pair<int, int>, std::vector<Signal>> signals_;  // by (from, to)
  std::map<std::pair<int, int>, std::size_t> taken_;
  std::map<std::pair<int, int>, std::vector<Put>> unannounced_, unflushed_;
  std::map<std::tuple<Memory, Elements, int>, Clock> published_;  // by place and block
  std::vector<std::map<int, int>> entered_, left_;                // by rank: call -> time
  std::vector<std::map<int, std::vector<int>>> blocks_;           // by rank: those of a call
  std::vector<std::map<int, Clock>> finished_;                    // by rank: block -> clock
  std::vector<Finding> findings_;
};

}  // namespace capstan::proof
