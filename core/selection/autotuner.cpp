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
  return std::llround(std::log2(seconds) * double{doubling});
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
  constexpr double shortest = 1e-9;  // one step of the clock
  const std::size_t after_minimum = seconds.size() > 1 ? 1 : 0;
  const auto typical =
      seconds.begin() + static_cast<long>(std::max(after_minimum, seconds.size() / 4));
  std::ranges::nth_element(seconds, typical);
  return std::max(*typical, shortest);
}

}  // namespace

/// Candidates take several turns each, so that a disturbance of the machine does not hit one
/// candidate alone. Where ranks may run ahead of each other, as far as there are slots, a turn is
/// several times as long as the calls that the candidate before left in the slots. Otherwise
/// readers that find all data written, or writers that find room, would seem faster than they are.
// measured: docs/lab-notebook.md#when-the-autotuner-decides
Autotuner::Turns Autotuner::turns_for(Bytes bytes, bool waits_for_all) {
  constexpr auto small = SlotKind::small_packets;
  constexpr std::size_t several = 4, ahead = standard_slots.count[small];
  constexpr Bytes is_small = standard_slots.region[small];
  constexpr Bytes is_short{64 << 10}, is_long{4 << 20};
  if (bytes <= is_small && !waits_for_all) return {3, several * ahead + 1};
  if (bytes < is_short) return waits_for_all ? Turns{4, 9} : Turns{3, 129};
  if (bytes < is_long) return waits_for_all ? Turns{3, 4} : Turns{3, 9};
  return {2, 3};
}

/// Where ranks share cores, the last rank to begin may find that the others have done their work.
/// The times of that rank alone would then be too short.
Autotuner::Autotuner(std::vector<Choice> candidates, Collective collective, Bytes bytes,
                     bool shares_cores)
    : bytes_(bytes),
      waits_for_all_(synchronizes(collective) && !shares_cores),
      turns_(turns_for(bytes, waits_for_all_)),
      decided_(candidates.size() == 1) {
  for (Choice& choice : candidates) measurements_.push_back({.choice = std::move(choice)});
  candidates_.resize(measurements_.size());
  std::iota(candidates_.begin(), candidates_.end(), std::size_t{0});
  if (decided_) calls_left_ = never;
}

void Autotuner::begin_round() {
  for (Measurement& measurement : measurements_) measurement.calls.clear();
  given_ = 0;
  agreeing_ = decided_ = false;
}

std::size_t Autotuner::next_candidate() {
  const std::size_t turn = given_ < warm_up ? 0 : (given_ - warm_up) / turns_.calls;
  ++given_;
  return candidates_[turn % candidates_.size()];
}

/// Two cases. If no rank ends a call before all have begun it: the begin and the end of each call.
/// A call takes the time from the last begin to the last end, whichever rank has waited. If ranks
/// may run ahead of each other, a single call says little: the mean over each turn.
void Autotuner::times(std::span<double> times) const {
  auto to = times.begin();
  for (const std::size_t candidate : candidates_) {
    const Measurement& measurement = measurements_[candidate];
    assert(measurement.calls.size() >= calls_each());
    const auto calls = std::span{measurement.calls}.last(calls_each());
    for (std::size_t turn = 0; turn < turns_.number; ++turn) {
      const auto counted = calls.subspan(turn * turns_.calls, turns_.calls).subspan(1);
      double sum = 0;
      for (const auto& [begin, end] : counted) {
        sum += in_seconds(end - begin);
        if (!waits_for_all_) continue;
        *to++ = in_seconds(begin);
        *to++ = in_seconds(end);
      }
      if (!waits_for_all_) *to++ = sum / static_cast<double>(counted.size());
    }
  }
}

/// How long the calls of one candidate took, from the times that all ranks have agreed on.
std::vector<double> Autotuner::seconds_of(std::span<const double> greatest) const {
  if (!waits_for_all_) return {greatest.begin(), greatest.end()};
  std::vector<double> seconds;
  for (std::size_t i = 0; i < greatest.size(); i += 2)
    seconds.push_back(greatest[i + 1] - greatest[i]);
  return seconds;
}

/// The standing decision gives way only to a candidate that beats it by the hysteresis. Candidates
/// far behind are left out of later rounds.
void Autotuner::decide(std::span<const double> greatest) {
  ++rounds_;
  for (std::size_t i = 0; i < candidates_.size(); ++i)
    measurements_[candidates_[i]].log_times +=
        log_time(typical_time(seconds_of(greatest.subspan(i * times_each(), times_each()))));
  const auto log_times = [this](std::size_t candidate) {
    return measurements_[candidate].log_times;
  };
  const auto rounds = static_cast<std::int64_t>(rounds_);
  std::ranges::stable_sort(candidates_, {}, log_times);
  if (log_times(winner_) - log_times(candidates_.front()) > hysteresis(bytes_) * rounds)
    winner_ = candidates_.front();
  measurements_[winner_].choice.reason = reason();
  const std::int64_t far_behind = rounds == 1 ? 2 * doubling : doubling;
  std::erase_if(candidates_, [&](std::size_t candidate) {
    return log_times(candidate) - log_times(winner_) > far_behind * rounds;
  });
  calls_left_ = calls_until_next_round();
  decided_ = true;
}

/// The geometric mean over all rounds: a round that was disturbed does not outweigh the others.
double Autotuner::typical_seconds(std::size_t candidate) const {
  const auto log_times = static_cast<double>(measurements_[candidate].log_times);
  return std::exp2(log_times / static_cast<double>(rounds_) / doubling);
}

std::string Autotuner::reason() const {
  const double seconds = typical_seconds(winner_);
  return fmt::format("{} {} that were tried{}, {:.2f} us (predicted {:.2f} us)",
                     winner_ == candidates_.front() ? "the fastest of" : "close to the fastest of",
                     measurements_.size(),
                     rounds_ > 1 ? fmt::format(", the best of them {} times", rounds_) : "",
                     seconds * 1e6, measurements_[winner_].choice.nanoseconds / 1000);
}

/// Rounds are a sixteenth of the calls at first and half as frequent after each round. A winner
/// without a candidate near it is never measured again.
std::uint64_t Autotuner::calls_until_next_round() const {
  // measured: docs/lab-notebook.md#retune-schedule
  constexpr std::uint64_t between = 16, most_doublings = 24;
  if (candidates_.size() == 1) return never;
  const std::uint64_t round = candidates_.size() * calls_each();
  return between * round << std::min(rounds_ - 1, most_doublings);
}

}  // namespace capstan
