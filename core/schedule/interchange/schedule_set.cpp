// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/interchange/schedule_set.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "core/schedule/interchange/step_recorder.hpp"
#include "core/schedule/lowering/prove_algorithm.hpp"

namespace capstan {
namespace {

/// Divides all offsets and lengths of schedules by what they have in common.
class Divider {
 public:
  explicit Divider(const ScheduleSet& set) : set_(set) {
    note(set.shape.count);
    for (const Elements count : set.shape.counts) note(count);
    for (const Schedule& schedule : set.schedules) note(schedule);
  }

  ScheduleSet divided() const {
    ScheduleSet result = set_;
    if (unit_ <= 1) return result;
    result.shape.count = divided(result.shape.count);
    for (Elements& count : result.shape.counts) count = divided(count);
    const Elements largest_output = result.contract().largest_output();
    ByRank<Schedule> schedules;
    for (const Schedule& schedule : set_.schedules)
      schedules.push_back(divided(schedule, largest_output));
    result.schedules = std::move(schedules);
    return result;
  }

 private:
  void note(Elements length) { unit_ = std::gcd(unit_, length.value()); }
  void note(const Span& span) { note(span.offset), note(span.length); }
  void note(const Schedule& schedule) {
    const auto& [input, output, scratch] = schedule.extents();
    note(input), note(output), note(scratch);
    for (const Step& step : schedule.steps()) {
      note(step.destination);
      for (const Span& source : schedule.sources(step)) note(source);
    }
  }

  Elements divided(Elements length) const { return length / unit_; }
  Span divided(const Span& span) const {
    return {span.buffer, divided(span.offset), divided(span.length)};
  }
  Schedule divided(const Schedule& schedule, Elements largest_output) const {
    const auto& [input, output, scratch] = schedule.extents();
    StepRecorder recorder{set_.hosts,
                          schedule.self(),
                          {divided(input), divided(output), divided(scratch)},
                          largest_output};
    for (Step step : schedule.steps()) {
      std::vector<Span> sources;
      for (const Span& source : schedule.sources(step)) sources.push_back(divided(source));
      step.destination = divided(step.destination);
      recorder.record(step, sources);
    }
    return std::move(recorder).build(schedule.phases());
  }

  const ScheduleSet& set_;
  std::uint64_t unit_ = 0;  // 0: nothing has a length
};

using Pair = std::pair<Rank, Rank>;  // from, to

}  // namespace

ScheduleSet schedule_set(const Algorithm& algorithm, const Hosts& hosts, const Shape& shape) {
  return {.algorithm = std::string{algorithm.name},
          .summary = std::string{algorithm.summary},
          .collective = algorithm.collective,
          .hosts = hosts,
          .shape = shape,
          .guarantees = algorithm.guarantees,
          .traffic = algorithm.traffic,
          .schedules = schedules_of(algorithm, hosts, shape)};
}

ScheduleSet in_units(const ScheduleSet& set) {
  return Divider{set}.divided();
}

std::vector<MatchedMessage> matched_messages(const ByRank<Schedule>& schedules) {
  std::map<Pair, std::vector<std::size_t>> waits;
  for (const Schedule& schedule : schedules)
    for (std::size_t i = 0; i < schedule.steps().size(); ++i)
      if (const Step& step = schedule.steps()[i]; step.verb == Verb::wait)
        waits[{step.peer, schedule.self()}].push_back(i);
  std::map<Pair, std::size_t> taken;
  std::vector<MatchedMessage> messages;
  for (const Schedule& schedule : schedules) {
    std::map<Rank, Elements> put;  // to each peer since the last signal
    for (std::size_t i = 0; i < schedule.steps().size(); ++i) {
      const Step& step = schedule.steps()[i];
      const Pair pair{schedule.self(), step.peer};
      if (step.verb == Verb::put) put[step.peer] += step.destination.length;
      if (step.verb != Verb::signal) continue;
      const Elements length = std::exchange(put[step.peer], Elements{0});
      const auto& takers = waits[pair];
      if (const std::size_t k = taken[pair]++; k < takers.size())
        messages.push_back({pair.first, pair.second, i, takers[k], length});
    }
  }
  return messages;
}

ByRank<std::vector<int>> step_times(const ByRank<Schedule>& schedules) {
  std::map<std::pair<Rank, std::size_t>, MatchedMessage> arrival;  // by wait
  for (const MatchedMessage& message : matched_messages(schedules))
    arrival.emplace(std::pair{message.to, message.wait}, message);
  ByRank<std::vector<int>> times(schedules.size());
  int last = 0;
  const auto next_time = [&](const Schedule& schedule) -> std::optional<int> {
    const auto& own = times[schedule.self()];
    const int after = own.empty() ? 0 : own.back() + 1;
    const Step& step = schedule.steps()[own.size()];
    if (step.verb != Verb::wait) return after;
    const auto found = arrival.find({schedule.self(), own.size()});
    if (found == arrival.end()) return std::nullopt;
    const auto& [from, to, signal, wait, length] = found->second;
    if (times[from].size() <= signal) return std::nullopt;
    return std::max(after, times[from][signal] + 1);
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (const Schedule& schedule : schedules)
      while (times[schedule.self()].size() < schedule.steps().size()) {
        const auto time = next_time(schedule);
        if (!time) break;
        times[schedule.self()].push_back(*time);
        last = std::max(last, *time), moved = true;
      }
  }
  for (const Schedule& schedule : schedules)
    while (times[schedule.self()].size() < schedule.steps().size())
      times[schedule.self()].push_back(++last);
  return times;
}

}  // namespace capstan
