#include "core/selection/autotuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/lowering/slots.hpp"

namespace capstan {
namespace {

constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

/// Times are compared by their logarithms in whole steps: all ranks come to the same, whichever
/// mathematical library they have.
constexpr std::int64_t doubling = 1 << 20;  // steps

/// By how much what was chosen before has to be beaten: 5 %. Long calls move memory, and how fast
/// each of their ways does it changes by more than that whenever cores come to share another cache:
/// 10 %, so that what is expected to be good everywhere gives way to more than a moment's best.
std::int64_t clearly(Bytes bytes) {
  constexpr Bytes is_long{8 << 20};
  return doubling * (bytes < is_long ? 74 : 152) / 1000;
}

std::int64_t steps_of(double seconds) {
  return std::llround(std::log2(seconds) * double{doubling});
}

/// Nobody ends before all have begun. In the others some only send, or only receive.
bool waits_for_all(Collective collective) {
  return !has_root(collective) && collective != Collective::scan &&
         collective != Collective::exscan;
}

double in_seconds(Trial::Clock::duration duration) {
  return std::chrono::duration<double>{duration}.count();
}

/// Of the shorter ones, as others use the machine, too, but not the very shortest, as once may be
/// luck.
double typical_time(std::vector<double> seconds) {
  constexpr double shortest = 1e-9;  // that a clock tells
  const std::size_t few = seconds.size() > 1 ? 1 : 0;
  const auto typical = seconds.begin() + static_cast<long>(std::max(few, seconds.size() / 4));
  std::ranges::nth_element(seconds, typical);
  return std::max(*typical, shortest);
}

}  // namespace

std::size_t CallHash::operator()(const Call& call) const {
  return mark_of(call, {}).digest();
}

/// What disturbs the machine for a while is not to disturb one candidate alone. Where ranks may run
/// ahead, as far as there are slots, a turn lasts several times as long as what is left of the one
/// before: readers that find everything written, or writers that find room, are in no hurry.
Trials::Turns Trials::turns_for(Bytes bytes, bool together) {
  constexpr auto small = SlotKind::small_packets;
  constexpr std::size_t several = 4, ahead = standard_slots.count[small];
  constexpr Bytes is_small = standard_slots.region[small];
  constexpr Bytes is_short{64 << 10}, is_long{4 << 20};
  if (bytes <= is_small && !together) return {3, several * ahead + 1};
  if (bytes < is_short) return together ? Turns{4, 9} : Turns{3, 129};
  if (bytes < is_long) return together ? Turns{3, 4} : Turns{3, 9};
  return {2, 3};
}

/// Where ranks share cores, the one that comes last may find what others did in its place before.
Trials::Trials(std::vector<Choice> candidates, Collective collective, Bytes bytes,
               bool shares_cores)
    : bytes_(bytes),
      together_(waits_for_all(collective) && !shares_cores),
      turns_(turns_for(bytes, together_)),
      decided_(candidates.size() == 1) {
  for (Choice& choice : candidates) trials_.emplace_back(std::move(choice));
  contenders_.resize(trials_.size());
  std::iota(contenders_.begin(), contenders_.end(), std::size_t{0});
  if (decided_) calls_left_ = never;
}

void Trials::begin_again() {
  for (Trial& trial : trials_) trial.calls_.clear();
  begun_ = 0;
  asked_ = decided_ = false;
}

const Plan& Trials::next(const Call& call, const Make& make) {
  const std::size_t turn = begun_ < warm_up ? 0 : (begun_ - warm_up) / turns_.calls;
  Trial& trial = trials_[contenders_[turn % contenders_.size()]];
  auto& plan = trial.plans_[call];
  if (!plan) {
    auto made = std::make_unique<Plan>(make(trial.choice_));
    made->trial = &trial;
    plan = std::move(made);
  }
  ++begun_;
  return *plan;
}

/// Of a call that nobody ends before all have begun it, when that was, and when it ended: what lies
/// between the last begin and the last end is how long it takes, whoever has waited for whom. Where
/// ranks may run ahead of each other, a call alone says little: the mean of those of a turn.
void Trials::times(std::span<double> times) const {
  auto to = times.begin();
  for (const std::size_t contender : contenders_) {
    const Trial& trial = trials_[contender];
    assert(trial.calls_.size() >= calls_each());
    const auto calls = std::span{trial.calls_}.last(calls_each());
    for (std::size_t turn = 0; turn < turns_.number; ++turn) {
      const auto counted = calls.subspan(turn * turns_.calls, turns_.calls).subspan(1);
      double sum = 0;
      for (const Trial::Noted& call : counted) {
        sum += in_seconds(call.end - call.begin);
        if (!together_) continue;
        *to++ = in_seconds(call.begin.time_since_epoch());
        *to++ = in_seconds(call.end.time_since_epoch());
      }
      if (!together_) *to++ = sum / static_cast<double>(counted.size());
    }
  }
}

/// How long calls of one way took, of the times that all ranks noted about them.
std::vector<double> Trials::seconds_of(std::span<const double> greatest) const {
  if (!together_) return {greatest.begin(), greatest.end()};
  std::vector<double> seconds;
  for (std::size_t i = 0; i < greatest.size(); i += 2)
    seconds.push_back(greatest[i + 1] - greatest[i]);
  return seconds;
}

/// The winner so far, at first what is expected to be the best, has to be beaten clearly. Those
/// that are far behind take no part any more.
void Trials::decide(std::span<const double> greatest) {
  ++reviews_;
  for (std::size_t i = 0; i < contenders_.size(); ++i)
    trials_[contenders_[i]].steps_ +=
        steps_of(typical_time(seconds_of(greatest.subspan(i * times_each(), times_each()))));
  const auto steps = [this](std::size_t trial) { return trials_[trial].steps_; };
  const auto reviews = static_cast<std::int64_t>(reviews_);
  std::ranges::stable_sort(contenders_, {}, steps);
  if (steps(winner_) - steps(contenders_.front()) > clearly(bytes_) * reviews)
    winner_ = contenders_.front();
  trials_[winner_].choice_.reason = reason();
  const std::int64_t far_behind = reviews == 1 ? 2 * doubling : doubling;
  std::erase_if(contenders_, [&](std::size_t contender) {
    return steps(contender) - steps(winner_) > far_behind * reviews;
  });
  calls_left_ = calls_until_review();
  for (Trial& trial : trials_) trial.plans_.clear();
  decided_ = true;
}

/// The geometric mean of those of all reviews: one that was disturbed does not outweigh the others.
double Trials::typical_seconds(std::size_t trial) const {
  const auto steps = static_cast<double>(trials_[trial].steps_);
  return std::exp2(steps / static_cast<double>(reviews_) / doubling);
}

std::string Trials::reason() const {
  const double seconds = typical_seconds(winner_);
  return fmt::format("{} {} that were tried{}, {:.2f} us (predicted {:.2f} us)",
                     winner_ == contenders_.front() ? "the fastest of" : "close to the fastest of",
                     trials_.size(),
                     reviews_ > 1 ? fmt::format(", the best of them {} times", reviews_) : "",
                     seconds * 1e6, trials_[winner_].choice_.nanoseconds / 1000);
}

/// So many that reviews are a sixteenth of the calls at first, and soon next to nothing. What has
/// no rival near it stays as it is.
std::uint64_t Trials::calls_until_review() const {
  constexpr std::uint64_t seldom = 16, most_doublings = 24;
  if (contenders_.size() == 1) return never;
  const std::uint64_t review = contenders_.size() * calls_each();
  return seldom * review << std::min(reviews_ - 1, most_doublings);
}

}  // namespace capstan
