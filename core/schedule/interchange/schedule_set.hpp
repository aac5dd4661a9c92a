// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "algorithms/registry.hpp"
#include "capstan/by_rank.hpp"

namespace capstan {

/// The schedules of all ranks for one call of one size, with what the algorithm promises: the
/// contents of a schedule file.
struct ScheduleSet {
  std::string algorithm;
  std::string summary;
  Collective collective = Collective::all_reduce;
  Hosts hosts{1};
  Shape shape{};
  Guarantees guarantees{};
  Traffic traffic = Traffic::partials;
  ByRank<Schedule> schedules{};

  Contract contract() const { return {collective, shape, schedules.size()}; }
};

/// The schedules of an algorithm at one size.
ScheduleSet schedule_set(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape);

/// The same in units of so many elements that all offsets and lengths are multiples of: what is
/// proven of it holds for the schedules themselves, as the elements of a unit share their fate. One
/// element stays where there is a common divisor of 1.
ScheduleSet in_units(const ScheduleSet& set);

/// A signal and the wait that takes it, with what arrives by then.
struct MatchedMessage {
  Rank from{}, to{};
  std::size_t signal = 0, wait = 0;  ///< steps of the sender and of the receiver
  Elements length{};                 ///< of the puts since the signal before
};

/// The k-th wait for a peer takes its k-th signal. Signals and waits without the other are left
/// out.
std::vector<MatchedMessage> matched_messages(const ByRank<Schedule>& schedules);

/// The time of each step, by rank, if each takes one unit and a signal needs another one: the
/// length of the longest chain of steps that lead to it. Steps of a deadlock follow all others.
ByRank<std::vector<int>> step_times(const ByRank<Schedule>& schedules);

}  // namespace capstan
