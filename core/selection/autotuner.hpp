#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/lowering/plan.hpp"

namespace capstan {

struct CallHash {
  std::size_t operator()(const Call& call) const;
};

/// One way of running calls of a kind, and when the first calls began and ended that ran so.
class Trial {
 public:
  using Clock = std::chrono::steady_clock;  // the same to all ranks of a host

  explicit Trial(Choice choice) : choice_(std::move(choice)) {}

  const Choice& choice() const { return choice_; }
  void note(Clock::time_point begin, Clock::time_point end) { calls_.push_back({begin, end}); }

 private:
  friend class Trials;
  Choice choice_;
  struct Noted {
    Clock::time_point begin, end;
  };
  std::vector<Noted> calls_;  ///< of this review
  std::int64_t steps_ = 0;    ///< logarithms of the typical times of all reviews, added up
  std::unordered_map<Call, std::unique_ptr<const Plan>, CallHash> plans_;
};

/// Finds out which of several ways is the fastest for calls of a kind: the first calls run in them
/// by turns, a few in each; then ranks tell each other how long these took, and all decide alike.
/// What the model of links knows about one machine may be wrong on another, and what was found in
/// one moment of a machine wrong in others: so the best of them are tried again, ever more rarely,
/// and their times of all reviews count.
///
/// Used by one thread at a time; everything but note() happens in the same order on all ranks.
class Trials {
 public:
  /// `candidates` are not empty, the first is the one that is expected to be the best.
  /// `bytes`: what the largest buffer of a call holds.
  Trials(std::vector<Choice> candidates, Collective collective, Bytes bytes, bool shares_cores);
  Trials(Trials&&) = default;

  /// The choice is made, until the next review.
  bool decided() const { return decided_; }
  /// It has been made once.
  bool settled() const { return decided_ || reviews_ > 0; }
  /// Counts a call that runs as decided; false when it is to be the first of a review, and in one.
  bool goes_on() {
    if (calls_left_ == 0) return false;
    --calls_left_;
    return true;
  }
  /// Begins a review.
  void begin_again();
  /// Of the largest buffer of a call, about.
  Bytes bytes() const { return bytes_; }
  /// Every candidate has had its calls.
  bool all_begun() const { return begun_ == warm_up + contenders_.size() * calls_each(); }
  /// The plan of the next call of this kind, unless all have begun.
  using Make = std::function<Plan(const Choice&)>;
  const Plan& next(const Call& call, const Make& make);

  /// What ranks tell each other when all calls that have begun are over, in seconds: the greatest
  /// of all is what decide() wants. `times` has number_of_times() elements.
  std::size_t number_of_times() const { return contenders_.size() * times_each(); }
  void times(std::span<double> times) const;
  void decide(std::span<const double> greatest);
  /// Whether ranks are telling each other, or have done so.
  bool asked() const { return asked_; }
  void set_asked() { asked_ = true; }

  /// The last winner, or before that the one that is expected to be the best.
  const Choice& choice() const { return trials_[winner_].choice_; }

 private:
  /// Calls before the first turn, in one way: what is done for buffers that come back (see
  /// RecurringBuffers) is done then.
  static constexpr std::size_t warm_up = 2;
  /// What one candidate gets. The first call of each turn does not count: it brings memory and
  /// caches to it.
  struct Turns {
    std::size_t number, calls;
  };
  static Turns turns_for(Bytes bytes, bool together);
  std::size_t calls_each() const { return turns_.number * turns_.calls; }
  std::size_t times_each() const {
    return together_ ? 2 * turns_.number * (turns_.calls - 1) : turns_.number;
  }

  std::vector<double> seconds_of(std::span<const double> greatest) const;
  double typical_seconds(std::size_t trial) const;
  std::string reason() const;
  std::uint64_t calls_until_review() const;

  std::vector<Trial> trials_;
  std::vector<std::size_t> contenders_;  ///< of the next review, or of this one
  Bytes bytes_;
  bool together_;  ///< no rank ends a call before all have begun it: see times()
  Turns turns_;
  std::size_t begun_ = 0, winner_ = 0;
  std::uint64_t reviews_ = 0, calls_left_ = 0;
  bool asked_ = false, decided_ = false;
};

}  // namespace capstan
