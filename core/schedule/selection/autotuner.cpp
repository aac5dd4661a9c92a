// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/selection/autotuner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <numeric>
#include <ranges>
#include <utility>

#include "core/schedule/selection/link_model.hpp"

namespace capstan {
namespace {

constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

/// Times are compared by their logarithms in whole steps, so that all ranks come to the same
/// decision, whichever mathematical library they have.
constexpr std::int64_t doubling = 1 << 20;  // steps

/// The hysteresis: by how much a candidate has to beat the standing decision. 5 %; for long calls
/// 10 %, because they move memory, and the speed of each candidate changes by more than 5 %
/// whenever cores come to share another cache.
// measured: docs/lab-notebook.md#retune-schedule
std::int64_t hysteresis(Bytes bytes) {
  constexpr Bytes is_long{8 << 20};
  return doubling * (bytes < is_long ? 74 : 152) / 1000;
}

std::int64_t log_time(double seconds) {
  constexpr double shortest = 1e-9;  // one step of the clock
  return std::llround(std::log2(std::max(seconds, shortest)) * double{doubling});
}

/// No rank ends such a call before all have begun it. In other collectives some ranks only send,
/// or only receive.
bool synchronizes(Collective collective) {
  return !has_root(collective) && collective != Collective::scan &&
         collective != Collective::exscan;
}

double in_seconds(Autotuner::Time nanoseconds) {
  return static_cast<double>(nanoseconds) / 1e9;
}

/// The lower quartile, but never the minimum: other users of the machine lengthen some calls, and
/// luck may shorten one.
double typical_time(std::vector<double> seconds) {
  const std::size_t after_minimum = seconds.size() > 1 ? 1 : 0;
  const auto typical =
      seconds.begin() + static_cast<long>(std::max(after_minimum, seconds.size() / 4));
  std::ranges::nth_element(seconds, typical);
  return *typical;
}

}  // namespace

/// Candidates take several turns each, so that a disturbance of the machine does not hit one
/// candidate alone. Three at least, as of two the slower one would count.
// measured: docs/lab-notebook.md#short-trials
Autotuner::Turns Autotuner::turns_for(Bytes bytes) {
  constexpr Bytes is_short{128 << 10}, is_long{4 << 20};
  if (bytes < is_tiny) return {3, 4, 3};
  if (bytes < is_short) return {3, 4, 4};
  return bytes < is_long ? Turns{4, 4, 4} : Turns{3, 3, 3};
}

/// Where ranks share cores, the last rank to begin may find that the others have done their work.
/// The times of that rank alone would then be too short.
Autotuner::Autotuner(std::vector<Choice> candidates, Collective collective, Bytes bytes,
                     bool shares_cores)
    : bytes_(bytes),
      waits_for_all_(synchronizes(collective) && !shares_cores),
      shares_cores_(shares_cores),
      turns_(turns_for(bytes)),
      in_heat_(candidates.size() > most_after_heat),
      decided_(candidates.size() == 1),
      settled_(decided_) {
  for (Choice& choice : candidates) measurements_.push_back({.choice = std::move(choice)});
  candidates_.resize(measurements_.size());
  std::iota(candidates_.begin(), candidates_.end(), std::size_t{0});
  if (decided_) calls_left_ = never;
}

Autotuner::Autotuner(Choice first, Bytes bytes)
    : Autotuner({std::move(first)}, Collective::barrier, bytes, false) {
  calls_left_ = first_calls;
  settled_ = false;
  for_first_calls_ = true;
}

void Autotuner::begin_round() {
  for (Measurement& measurement : measurements_) measurement.calls.clear();
  checking_ = check_is_due();
  if (checking_)
    not_checked_ = std::exchange(candidates_, {winner_});
  else if (starts_again())
    start_again();
  given_ = checking_ ? warm_up : 0;
  met_ = 0;
  agreeing_ = decided_ = false;
}

/// Whether the next round is the first one that counts.
bool Autotuner::starts_again() const {
  return rounds_ == 1 && bytes_ >= worth_huge_pages && !has_started_again_;
}

bool Autotuner::is_provisional() const {
  return !settled_ || starts_again() || (has_started_again_ && rounds_ == 0);
}

void Autotuner::start_again() {
  has_started_again_ = true;
  forget_rounds();
}

void Autotuner::forget_rounds() {
  rounds_ = turns_won_ = turns_compared_ = 0;
  for (Measurement& measurement : measurements_) measurement.log_times = 0;
  candidates_.resize(measurements_.size());
  std::iota(candidates_.begin(), candidates_.end(), std::size_t{0});
  in_heat_ = candidates_.size() > most_after_heat;
}

std::size_t Autotuner::next_candidate() {
  const std::size_t turn = given_ < warm_up ? 0 : (given_ - warm_up) / calls_of_turn();
  ++given_;
  return candidates_[turn % candidates_.size()];
}

/// Before the second call of a turn, the first one that counts.
bool Autotuner::meets_first() const {
  return !waits_for_all_ && given_ > warm_up && (given_ - warm_up) % calls_of_turn() == 1 &&
         met_ != given_;
}

/// The begin and the end of each call that counts. The greatest of all ranks are its last begin and
/// its last end: between them lies the call, but neither the waiting for a late rank nor what the
/// program does between calls. Where ranks share cores, the mean over each turn.
void Autotuner::times(std::span<double> times) const {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Measurement& measurement = measurements_[candidates_[i]];
    assert(measurement.calls.size() >= calls_each());
    const auto calls = std::span{measurement.calls}.last(calls_each());
    const auto of_candidate = times.subspan(i * times_each(), times_each());
    for (std::size_t turn = 0; turn < turns(); ++turn)
      add_times(calls.subspan(turn * calls_of_turn() + 1, calls_of_turn() - 1),
                of_candidate.subspan(turn * times_of_turn(), times_of_turn()));
  }
}

/// Writes the times of the calls of one turn, without its first call.
void Autotuner::add_times(std::span<const Measurement::Call> calls, std::span<double> times) const {
  if (shares_cores_) {
    Time sum = 0;
    for (const auto& [begin, end] : calls) sum += end - begin;
    times.front() = in_seconds(sum) / static_cast<double>(calls.size());
    return;
  }
  auto to = times.begin();
  for (const auto& [begin, end] : calls) {
    *to++ = in_seconds(begin);
    *to++ = in_seconds(end);
  }
}

/// How long the calls of each candidate took, from the times that all ranks have agreed on.
void Autotuner::add_seconds(std::span<const double> greatest) {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const auto times = greatest.subspan(i * times_each(), times_each());
    Measurement& measurement = measurements_[candidates_[i]];
    for (std::size_t turn = 0; turn < turns(); ++turn) {
      const auto of_turn = times.subspan(turn * times_of_turn(), times_of_turn());
      if (shares_cores_)
        measurement.seconds.push_back(of_turn.front());
      else
        measurement.add_turn(of_turn);
    }
  }
}

/// `times`: begin and end of each call.
void Autotuner::Measurement::add_turn(std::span<const double> times) {
  const std::size_t count = times.size() / 2;
  for (std::size_t call = 0; call < count; ++call)
    seconds.push_back(times[2 * call + 1] - times[2 * call]);
  const auto first = seconds.end() - static_cast<std::ptrdiff_t>(count);
  alone.push_back(*first);
  in_a_row.push_back(std::accumulate(first + 1, seconds.end(), 0.0) /
                     static_cast<double>(count - 1));
}

void Autotuner::Measurement::end_round() {
  seconds.clear();
  alone.clear();
  in_a_row.clear();
}

/// The logarithm of the time of a call by this candidate in this round. Where ranks may run ahead
/// of each other: of the geometric mean of a call alone, a turn's first, and of one in a row.
std::int64_t Autotuner::log_time_of(std::size_t candidate) const {
  const Measurement& measured = measurements_[candidate];
  if (waits_for_all_ || shares_cores_) return log_time(typical_time(measured.seconds));
  return (log_time(typical_time(measured.alone)) + log_time(typical_time(measured.in_a_row))) / 2;
}

/// The logarithm of the time of a call in one turn of this round.
std::int64_t Autotuner::log_time_of_turn(std::size_t candidate, std::size_t turn) const {
  const Measurement& measured = measurements_[candidate];
  if (shares_cores_) return log_time(measured.seconds[turn]);
  if (waits_for_all_) return log_time(measured.in_a_row[turn]);
  return (log_time(measured.alone[turn]) + log_time(measured.in_a_row[turn])) / 2;
}

/// Counts the turns of this round in which the decision is as good as the best.
void Autotuner::compare_turns() {
  const Measurement& any = measurements_[winner_];
  const std::size_t all = shares_cores_ ? any.seconds.size() : any.in_a_row.size();
  for (std::size_t turn = 0; turn < all; ++turn) {
    const auto times = [&](std::size_t candidate) { return log_time_of_turn(candidate, turn); };
    const std::int64_t best = std::ranges::min(candidates_ | std::views::transform(times));
    turns_won_ += times(winner_) - best <= hysteresis(bytes_);
  }
  turns_compared_ += all;
}

/// The standing decision gives way only to a candidate that beats it by the hysteresis. Candidates
/// far behind are left out of later rounds.
void Autotuner::decide(std::span<const double> greatest) {
  add_seconds(greatest);
  if (checking_) return end_check();
  if (in_heat_) return end_heat();
  ++rounds_;
  for (const std::size_t candidate : candidates_)
    measurements_[candidate].log_times += log_time_of(candidate);
  follows_heat_ = false;
  const auto log_times = [this](std::size_t candidate) {
    return measurements_[candidate].log_times;
  };
  const auto rounds = static_cast<std::int64_t>(rounds_);
  std::ranges::stable_sort(candidates_, {}, log_times);
  const bool measured = std::ranges::find(candidates_, winner_) != candidates_.end();
  if (!measured ||
      log_times(winner_) - log_times(candidates_.front()) > hysteresis(bytes_) * rounds)
    winner_ = candidates_.front();
  compare_turns();
  for (Measurement& measurement : measurements_) measurement.end_round();
  measurements_[winner_].choice.reason = reason();
  const std::int64_t far_behind = rounds == 1 ? 2 * doubling : doubling;
  std::erase_if(candidates_, [&](std::size_t candidate) {
    return log_times(candidate) - log_times(winner_) > far_behind * rounds;
  });
  note_winner_of_new_beginning();
  until_round_ = calls_until_next_round();
  calls_left_ = next_stretch();
  decided_ = settled_ = true;
}

/// One check may be disturbed. After a second one that finds another time all candidates are
/// measured anew, as what was measured before was another machine.
// measured: docs/lab-notebook.md#cores-that-move
void Autotuner::end_check() {
  constexpr std::int64_t apart = doubling * 585 / 1000;  // one and a half times as long
  constexpr int enough = 2;
  const std::int64_t known = measurements_[winner_].log_times / static_cast<std::int64_t>(rounds_);
  const std::int64_t longer = log_time_of(winner_) - known;
  const bool deviates = std::max(longer, -longer) > apart;
  measurements_[winner_].end_round();
  candidates_ = std::exchange(not_checked_, {});
  checking_ = false;
  decided_ = true;
  deviations_ = deviates ? deviations_ + 1 : 0;
  calls_left_ = next_stretch();
  if (deviations_ < enough) return;
  deviations_ = 0;
  overthrown_ = winner_;
  forget_rounds();
  until_round_ = calls_left_ = 0;
}

/// Where the decision is the same as before, something else makes times change: the calls of a kind
/// differ, or the machine is never quiet. Checks become rarer then.
void Autotuner::note_winner_of_new_beginning() {
  constexpr int most_doublings = 6;
  const auto before = std::exchange(overthrown_, std::nullopt);
  if (before)
    check_doublings_ = winner_ == *before ? std::min(check_doublings_ + 1, most_doublings) : 0;
}

/// The best of the heat take the other turns of the round, if they are near the fastest. Two do in
/// any case, as a disturbance may have hit the only turn of one. The shortest call counts: the
/// first ones of a candidate meet pages of slots that are new.
void Autotuner::end_heat() {
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  for (const std::size_t candidate : candidates_)
    order.emplace_back(log_time(std::ranges::min(measurements_[candidate].seconds)), candidate);
  std::ranges::stable_sort(order, {}, &std::pair<std::int64_t, std::size_t>::first);
  candidates_.clear();
  for (const auto& [time, candidate] : order)
    if (candidates_.size() < least_after_heat ||
        (candidates_.size() < most_after_heat && time - order.front().first <= doubling))
      candidates_.push_back(candidate);
  in_heat_ = false;
  follows_heat_ = true;
  begin_round();
}

/// The geometric mean over all rounds: a round that was disturbed does not outweigh the others.
double Autotuner::typical_seconds(std::size_t candidate) const {
  const auto log_times = static_cast<double>(measurements_[candidate].log_times);
  return std::exp2(log_times / static_cast<double>(rounds_) / doubling);
}

/// Candidates that are far behind do not take part in all rounds, and are left out.
std::vector<MeasuredWay> Autotuner::measured() const {
  // How much two rounds differ is not kept: what decisions take for equal stands for it.
  const double spread = std::exp2(static_cast<double>(hysteresis(bytes_)) / doubling) - 1;
  std::vector<MeasuredWay> ways;
  if (rounds_ == 0) return ways;
  for (const std::size_t candidate : candidates_) {
    const Choice& choice = measurements_[candidate].choice;
    ways.push_back({choice.algorithm, choice.protocol, choice.times_shorter,
                    typical_seconds(candidate) * 1e9, spread});
  }
  return ways;
}

std::string Autotuner::reason() const {
  const double seconds = typical_seconds(winner_);
  return fmt::format("{} {} that were tried{}, {:.2f} us (predicted {:.2f} us)",
                     winner_ == candidates_.front() ? "the fastest of" : "close to the fastest of",
                     measurements_.size(),
                     rounds_ > 1 ? fmt::format(", the best of them {} times", rounds_) : "",
                     seconds * 1e6, measurements_[winner_].choice.nanoseconds / 1000);
}

/// Rounds are a thirty-second of the calls at first, and of short calls less, as they measure the
/// same moment of the machine otherwise. They are half as frequent after each round. A winner
/// without a candidate near it is never measured again, unless all are.
std::uint64_t Autotuner::calls_until_next_round() const {
  // measured: docs/lab-notebook.md#retune-schedule
  constexpr std::uint64_t between = 32, between_starts = 4, most_doublings = 24;
  constexpr double moment = 10e-3;
  if (candidates_.size() == 1 && !starts_again()) return never;
  const std::uint64_t round = candidates_.size() * calls_each();
  if (starts_again()) return std::max(between_starts * round, calls_until_moved());
  return std::max(between * round, calls_in(moment)) << std::min(rounds_ - 1, most_doublings);
}

/// A check costs an agreement, about as much as a barrier.
std::uint64_t Autotuner::calls_until_check() const {
  constexpr std::uint64_t between = 32;
  constexpr double moment = 100e-3;
  return std::max<std::uint64_t>(between * calls_of_turn(), calls_in(moment)) << check_doublings_;
}

/// The calls until the next round or, if that comes first, the next check. Before all candidates
/// are measured again anyway there is none.
std::uint64_t Autotuner::next_stretch() {
  if (starts_again()) return std::exchange(until_round_, 0);
  const std::uint64_t calls = std::min(until_round_, calls_until_check());
  if (until_round_ != never) until_round_ -= calls;
  return calls;
}

/// About the number of calls in which input and output move into huge pages, page by page, for a
/// tenth of the time of calls: see RecurringBuffers.
// measured: docs/lab-notebook.md#decided-anew
std::uint64_t Autotuner::calls_until_moved() const {
  constexpr double seconds_of_page = 2e-3, share = 10;
  const double pages = 2.0 * static_cast<double>(bytes_.value() / (2 << 20) + 1);
  return 2 * calls_in(pages * seconds_of_page * share);
}

/// The number of calls by the winner that take so long, rounded down to a power of two.
std::uint64_t Autotuner::calls_in(double seconds) const {
  constexpr std::int64_t most_doublings = 24;
  const std::int64_t calls =
      log_time(seconds) - measurements_[winner_].log_times / static_cast<std::int64_t>(rounds_);
  return std::uint64_t{1} << std::clamp<std::int64_t>(calls / doubling, 0, most_doublings);
}

}  // namespace capstan
