// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/schedule/lowering/plan.hpp"
#include "core/schedule/selection/measured_times.hpp"

namespace capstan {

/// Finds the fastest of several candidates for calls of one kind by timing calls that run anyway.
///
///   first calls         run by what costs little to choose, where choosing well takes long
///   measurement round   calls run by the candidates in turn, a few calls each
///   agreement           ranks take the greatest of each time, so that all decide alike
///   decision            calls run by the fastest candidate until the next round
///   check               a few calls by the decision are timed: does it take as long as it did?
///
/// The first round exists because the model of one machine may be wrong on another. Where there are
/// many candidates it has two parts: a heat, in which each takes one turn, and the rest for the
/// best of them. Later rounds exist because one moment of a machine may differ from the next: they
/// measure the best candidates again, ever more rarely, and the times of all rounds count. Checks
/// exist because a machine may change for good: a virtual machine's cores move, or other programs
/// come and go. Where two checks in turn find another time, all begins anew.
///
/// Calls in a row count as much as calls that are alone. Where ranks may run ahead of each other,
/// the ranks meet before each turn: the first call then is alone, and those after it are in a row.
///
/// A pure object: it reads no clock, times are passed in. Used by one thread at a time. All
/// functions but note() are called in the same order on all ranks.
class Autotuner {
 public:
  /// A point in time, in nanoseconds of a clock that all ranks of the host share.
  using Time = std::int64_t;

  /// `candidates` are not empty; the first is the one with the least predicted time. `bytes` is the
  /// length of the largest buffer of a call.
  Autotuner(std::vector<Choice> candidates, Collective collective, Bytes bytes, bool shares_cores);
  /// The first calls of a kind, whose candidates are not known yet. They run by `first`.
  Autotuner(Choice first, Bytes bytes);
  Autotuner(Autotuner&&) = default;
  Autotuner& operator=(Autotuner&&) = default;

  /// The number of first calls. A decision among six candidates stands within a hundred calls.
  // measured: docs/lab-notebook.md#first-fifty-calls
  static constexpr std::uint64_t first_calls = 50;
  /// Whether it is for first calls. When they have been counted another one takes its place.
  bool is_for_first_calls() const { return for_first_calls_; }
  /// First calls have touched the buffers: the first round needs no calls for that.
  void follow_first_calls() { given_ = warm_up; }

  /// A decision stands: no round is under way.
  bool decided() const { return decided_; }
  /// A decision has been made at least once.
  bool settled() const { return settled_; }
  /// No decision has been made that is expected to stand. The first round of long calls was before
  /// their buffers came to lie in huge pages, where other candidates may be the fastest.
  bool is_provisional() const;
  /// Counts a call that runs as decided. False when a round is due or under way.
  bool count_call() {
    if (calls_left_ == 0) return false;
    --calls_left_;
    return true;
  }
  /// Whether a check, and no round, is due where no call is left to count.
  bool check_is_due() const { return until_round_ > 0; }
  /// Begins another measurement round, or a check.
  void begin_round();
  /// The length of the largest buffer of a call, about.
  Bytes bytes() const { return bytes_; }

  /// A check is under way.
  bool is_checking() const { return checking_; }
  /// Every candidate of the round has been given its calls.
  bool all_given() const { return given_ == warm_up + candidates_.size() * calls_each(); }
  /// The candidate that runs the next call, unless all_given().
  std::size_t next_candidate();
  /// Whether all ranks have to meet before the next call. To be said once they do.
  bool meets_first() const;
  void set_met() { met_ = given_; }
  const Choice& choice_of(std::size_t candidate) const { return measurements_[candidate].choice; }
  /// Records a call that ran by this candidate.
  void note(std::size_t candidate, Time begin, Time end) {
    measurements_[candidate].calls.push_back({begin, end});
  }

  /// The times in seconds, time_count() of them, that ranks agree on once all calls of the round
  /// have ended. decide() takes the greatest of all ranks, element by element.
  std::size_t time_count() const { return candidates_.size() * times_each(); }
  void times(std::span<double> times) const;
  void decide(std::span<const double> greatest);
  /// The agreement of this round has been begun.
  bool is_agreeing() const { return agreeing_; }
  void set_agreeing() { agreeing_ = true; }

  /// The last decision, or before the first one the candidate with the least predicted time.
  const Choice& choice() const { return measurements_[winner_].choice; }

  /// The times of the best candidates, over all rounds. Empty before the first decision, and where
  /// nothing had to be measured.
  std::vector<MeasuredWay> measured() const;
  std::uint64_t rounds() const { return rounds_; }
  /// The share of turns, over all rounds, in which the decision was among the fastest; as of two
  /// more turns, one of which was not.
  double confidence() const {
    return (static_cast<double>(turns_won_) + 1) / (static_cast<double>(turns_compared_) + 2);
  }

 private:
  /// Shorter calls use slots whose pages are mapped from the start: a heat needs no call for that.
  static constexpr Bytes is_tiny{4 << 10};
  /// Calls before the first turn, all by one candidate: they touch buffers that are new.
  static constexpr std::size_t warm_up = 2;
  /// The heat keeps so many candidates at least and at most.
  static constexpr std::size_t least_after_heat = 2, most_after_heat = 3;
  /// A candidate gets `number` turns of `calls` calls; if there is a heat, the first of them, of
  /// `calls_in_heat`, in it.
  /// The first call of a turn does not count: it brings memory into the caches of this candidate.
  struct Turns {
    std::size_t number, calls, calls_in_heat;
  };
  struct Measurement {
    struct Call {
      Time begin, end;
    };
    Choice choice;
    std::vector<Call> calls{};  ///< of this round, after its heat if it has one
    // The times of this round's calls that count, agreed on: of all; and by turn, of the first one
    // and the mean of those after it.
    std::vector<double> seconds{}, alone{}, in_a_row{};
    std::int64_t log_times = 0;  ///< the sum over all rounds of the logarithm of the typical time

    void add_turn(std::span<const double> times);
    void end_round();
  };
  static Turns turns_for(Bytes bytes);
  std::size_t turns() const {
    return in_heat_ || checking_ ? 1 : turns_.number - (follows_heat_ ? 1 : 0);
  }
  std::size_t calls_of_turn() const { return in_heat_ ? turns_.calls_in_heat : turns_.calls; }
  std::size_t calls_each() const { return turns() * calls_of_turn(); }
  std::size_t times_of_turn() const { return shares_cores_ ? 1 : 2 * (calls_of_turn() - 1); }
  std::size_t times_each() const { return turns() * times_of_turn(); }

  void add_times(std::span<const Measurement::Call> calls, std::span<double> times) const;
  void add_seconds(std::span<const double> greatest);
  std::int64_t log_time_of_turn(std::size_t candidate, std::size_t turn) const;
  void compare_turns();
  std::int64_t log_time_of(std::size_t candidate) const;
  void end_heat();
  void end_check();
  void forget_rounds();
  void note_winner_of_new_beginning();
  std::uint64_t calls_until_check() const;
  std::uint64_t next_stretch();
  bool starts_again() const;
  void start_again();
  double typical_seconds(std::size_t candidate) const;
  std::string reason() const;
  std::uint64_t calls_until_next_round() const;
  std::uint64_t calls_until_moved() const;
  std::uint64_t calls_in(double seconds) const;

  std::vector<Measurement> measurements_;  // by candidate
  std::vector<std::size_t> candidates_;    // of this round, or of the next one
  Bytes bytes_;
  bool waits_for_all_;  // no rank ends a call before all have begun it: see times()
  bool shares_cores_;
  Turns turns_;
  std::size_t given_ = 0, met_ = 0, winner_ = 0;
  std::uint64_t rounds_ = 0, calls_left_ = 0, turns_won_ = 0, turns_compared_ = 0;
  std::uint64_t until_round_ = 0;         // calls from the next check on; 0: the round comes first
  std::vector<std::size_t> not_checked_;  // the candidates of the next round, during a check
  int deviations_ = 0;                    // checks in turn that found another time
  int check_doublings_ = 0;               // new beginnings in turn that changed nothing
  std::optional<std::size_t> overthrown_{};  // the decision before a new beginning
  bool checking_ = false;
  bool in_heat_ = false, follows_heat_ = false, agreeing_ = false, decided_ = false,
       settled_ = false;
  bool has_started_again_ = false, for_first_calls_ = false;
};

}  // namespace capstan
