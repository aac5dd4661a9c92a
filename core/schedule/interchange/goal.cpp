// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/schedule/interchange/formats.hpp"

namespace capstan {
namespace {

/// Writes the steps of one rank, each of which requires the one before it.
class GoalRank {
 public:
  GoalRank(const Schedule& schedule, Bytes element, const ComputeCost& cost)
      : schedule_(schedule), element_(element), cost_(cost) {}

  /// `lengths`: of the messages that signals and waits stand for, by step.
  std::string text(const std::map<std::size_t, Elements>& lengths) {
    text_ = fmt::format("\nrank {} {{\n", schedule_.self().value());
    for (std::size_t i = 0; i < schedule_.steps().size(); ++i) {
      const Step& step = schedule_.steps()[i];
      if (step.verb == Verb::signal) message("send", "to", step, lengths, i);
      if (step.verb == Verb::wait) message("recv", "from", step, lengths, i);
      if (step.verb == Verb::copy || step.verb == Verb::reduce) compute(step);
    }
    return text_ + "}\n";
  }

 private:
  void message(const char* verb, const char* direction, const Step& step,
               const std::map<std::size_t, Elements>& lengths, std::size_t index) {
    const auto found = lengths.find(index);
    const Elements length = found == lengths.end() ? Elements{0} : found->second;
    const std::uint64_t bytes = std::max<std::uint64_t>(bytes_of(length, element_).value(), 1);
    statement(fmt::format("{} {}b {} {} tag 0", verb, bytes, direction, step.peer.value()));
  }

  void compute(const Step& step) {
    const double read = static_cast<double>(bytes_of(step.destination.length, element_).value()) *
                        step.source_count;
    constexpr double most = 1e18;
    const auto nanoseconds =
        static_cast<std::uint64_t>(std::min(read * cost_.nanoseconds_per_byte + 0.5, most));
    if (nanoseconds > 0) statement(fmt::format("calc {}", nanoseconds));
  }

  void statement(const std::string& what) {
    text_ += fmt::format("l{}: {}\n", ++statements_, what);
    if (statements_ > 1) text_ += fmt::format("l{} requires l{}\n", statements_, statements_ - 1);
  }

  const Schedule& schedule_;
  const Bytes element_;
  const ComputeCost& cost_;
  int statements_ = 0;
  std::string text_;
};

}  // namespace

std::string to_goal(const ScheduleSet& set, Bytes element, const ComputeCost& cost) {
  ByRank<std::map<std::size_t, Elements>> lengths(set.schedules.size());
  for (const MatchedMessage& message : matched_messages(set.schedules)) {
    lengths[message.from][message.signal] = message.length;
    lengths[message.to][message.wait] = message.length;
  }
  std::string text = fmt::format("num_ranks {}\n", set.schedules.size());
  for (const Schedule& schedule : set.schedules)
    text += GoalRank{schedule, element, cost}.text(lengths[schedule.self()]);
  return text;
}

}  // namespace capstan
