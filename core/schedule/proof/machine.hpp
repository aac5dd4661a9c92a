// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "capstan/by_rank.hpp"
#include "core/schedule/proof/budget.hpp"
#include "core/schedule/proof/effect.hpp"
#include "core/schedule/proof/value.hpp"

namespace capstan::proof {

/// Executes one list of effects per rank, symbolically, and reports everything that could go wrong
/// in any interleaving.
///
/// Signals never block, and the k-th wait for a peer takes its k-th signal. So the behaviour of a
/// rank depends on nothing but the order of its own steps: one execution meets every deadlock, and
/// the vector clocks of that execution (Fidge 1988, Mattern 1989) give the exact order "a happens
/// before b in every execution". Two conflicting accesses without such an order are a race, whether
/// or not this execution shows it. Puts land as late as they may, at the wait that takes their
/// signal. A read of packets waits for the write that publishes them, and for a wake-up after the
/// write: a rank that waits may be asleep.
class Machine {
 public:
  /// `layout` and `budget` are kept by reference.
  Machine(ByRank<std::vector<Effect>> scripts, const Layout& layout, Budget& budget);

  /// Runs all ranks to the end, into a deadlock, or until there are many findings. Signals that
  /// nobody waits for come first: they are the likely cause of what follows.
  /// Throws TooMuchWork.
  void run();

  /// The findings; of races, the first few and the number of further ones.
  const std::vector<Finding>& findings() const { return findings_; }
  void report(Flaw flaw, Rank rank, int step, std::string message);
  /// The value of an element at the end.
  ValueId value_at(const Piece& piece);
  Values& values() { return values_; }
  /// Whether no rank may return from a call before every rank has entered it.
  bool synchronizes() const { return synchronizes_; }

 private:
  using Clock = ByRank<int>;  // how many effects of each rank are known to have happened
  static constexpr Rank nobody{-1};

  struct Access {
    Rank rank = nobody;
    int time = 0;          // on the clock of `rank`: a rank that has reached it knows the access
    Rank issuer = nobody;  // of a put: a rank that knows that the issuer ...
    int issuer_call = 0;   // ... has left this call knows that the put has ended
    int step = -1;
  };
  struct Cell {
    ValueId value = Values::nothing;
    Access written;
    std::vector<Access> read;  // since `written`
  };
  /// The cells of a memory, for blocks of one form.
  struct Content {
    int form = 0;
    std::vector<Cell> cells{};
    /// Accesses by blocks of other forms, the last ones of each rank and issuer. They conflict with
    /// all that come later.
    std::vector<Access> read_before{}, written_before{};
  };
  struct Put {
    const Effect* effect;
    Clock issued;
    std::vector<ValueId> values;
  };
  struct Signal {
    Clock clock;
    std::vector<Put> puts;  // that land before the signal is seen
  };

  bool step(Rank rank);
  void pay_for(Rank rank, const Effect& effect);
  bool wait(Rank rank, const Effect& effect);
  bool packets_ready(Rank rank, const Effect& effect);
  const Clock* publication(const Effect& effect, const Piece& source) const;
  bool is_awake_for(Rank rank, const Piece& source, const Clock& published);
  void finish(Rank rank, const Effect& effect);
  void tell(Rank rank, const Effect& effect);
  void wake(Rank rank, Rank peer);
  void transfer(Rank rank, const Effect& effect);
  bool copies_to_itself(const Effect& effect) const;
  void check_overlap(Rank rank, const Effect& effect);
  void put(Rank rank, const Effect& effect);
  void flush(Rank rank, const Effect& effect);
  void land(const Put& put, Rank issuer, Rank taken_by, int time);
  void enter(Rank rank, const Effect& effect);
  void leave(Rank rank, const Effect& effect);
  void check_owner_is_in(Rank rank, const Effect& effect, const Memory& memory);
  void check_owner_has_entered(Rank rank, const Effect& effect, const Memory& memory);
  void check_buffers_are_free(Rank rank, int call, const Clock& now);
  bool acquire(Rank rank, const Effect& effect);
  std::vector<Rank> readers_of(const Effect& effect) const;
  const Clock* known_finish(Rank rank, Rank peer, int block) const;
  bool has_many_findings() const;
  bool has_ended(Rank rank) const { return next_[rank] == scripts_[rank].size(); }
  void report_deadlock();
  std::string reason_to_wait(Rank rank, const Effect& effect);
  std::string reason_to_acquire(Rank rank, const Effect& effect) const;
  std::string reason_without_packets(Rank rank, const Effect& effect);
  void report_unheard();
  void report_further_races();

  std::vector<ValueId> read(Rank rank, const Effect& effect, bool again = false);
  void write(const Effect& effect, const Piece& piece, const std::vector<ValueId>& values,
             const Clock& known, const Access& access);
  void check_is_input(Rank rank, const Effect& effect, const Piece& source, std::size_t i,
                      const Cell& cell);
  ValueId combine(Rank rank, const Effect& effect, ValueId a, ValueId b);
  ValueId complete(Rank rank, const Effect& effect, ValueId value);
  bool in_range(Rank rank, const Effect& effect, const Piece& piece);
  bool before(const Access& access, const Clock& known) const;
  void race(const Effect& effect, const Access& other, Rank rank, const Piece& element,
            const char* what);
  std::string number_of(const Memory& memory, Elements offset) const;
  Cell* cells(const Piece& piece, Elements length);
  Content& content_of(const Memory& memory);
  static void change_form(Content& content, int form);
  void check_other_forms(Rank rank, const Effect& effect, const Piece& piece, const Clock& known,
                         bool writes);
  auto ranks() const { return all_ranks(scripts_.size()); }
  Clock& tick(Rank rank);

  const ByRank<std::vector<Effect>> scripts_;
  const Layout& layout_;
  Budget& budget_;
  Values values_;
  ByRank<std::size_t> next_;  // the effect to run
  ByRank<Clock> clocks_;
  std::map<Memory, Content> memory_;                              // by memory without its form
  std::map<std::pair<Rank, Rank>, std::vector<Signal>> signals_;  // by (from, to)
  std::map<std::pair<Rank, Rank>, std::size_t> taken_;
  std::map<std::pair<Rank, Rank>, std::vector<Put>> unannounced_, unflushed_;
  std::map<std::tuple<Memory, Elements, int>, Clock> published_;  // by place and block
  ByRank<std::map<int, int>> entered_, left_;                     // call -> time
  ByRank<std::map<int, std::vector<int>>> blocks_;                // call -> its blocks
  using Finishes = std::map<int, Clock>;                          // block -> clock
  ByRank<Finishes> finished_;
  std::map<std::pair<Rank, Rank>, Finishes> told_;  // by (from, to)
  ByRank<ByRank<int>> woken_;  // by from, to: time of the last wake-up, on the clock of `from`
  std::vector<Finding> findings_;
  std::set<std::tuple<Flaw, Rank, int>> reported_;  // one finding for each flaw of a step
  std::size_t races_ = 0;
  bool synchronizes_ = true;
};

}  // namespace capstan::proof
