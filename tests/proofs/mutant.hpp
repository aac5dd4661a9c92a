// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "capstan/error.hpp"
#include "capstan/schedule.hpp"

namespace capstan::testing {

/// A schedule taken apart, to be changed and put together again.
class Mutant {
 public:
  explicit Mutant(const Schedule& original)
      : self_(original.self()), extents_(original.extents()), phases_(original.phases()) {
    for (const Step& step : original.steps()) {
      const auto sources = original.sources(step);
      steps_.push_back({step, {sources.begin(), sources.end()}});
    }
  }

  /// Spoils it in a random way and says how; now and then that changes nothing.
  std::string mutate(std::mt19937_64& random, int ranks) {
    if (steps_.empty()) return "nothing to change";
    const std::size_t i = random() % steps_.size();
    const std::string where = " step " + std::to_string(i);
    const auto at = steps_.begin() + static_cast<std::ptrdiff_t>(i);
    switch (random() % 12) {
      case 0:
        steps_.erase(at);
        return "without" + where;
      case 1:
        steps_.insert(at, Recorded{*at});
        return "with twice" + where;
      case 2:
        if (i + 1 < steps_.size()) std::iter_swap(at, at + 1);
        return "with the next one before" + where;
      case 3:
        at->step.peer = Rank{static_cast<std::int32_t>(random() % static_cast<unsigned>(ranks))};
        return "with another peer in" + where;
      case 4:
        at->step.completes = !at->step.completes;
        return "with the opposite of completion in" + where;
      case 5:
        if (at->sources.size() > 1) at->sources.pop_back();
        return "with one source less in" + where;
      case 6:
        std::swap(at->step.destination, steps_[random() % steps_.size()].step.destination);
        return "with the destination of another step in" + where;
      case 7:
        std::swap(at->sources, steps_[random() % steps_.size()].sources);
        return "with the sources of another step in" + where;
      case 8: {
        Span& span = operand_of(*at, random);
        const Elements by{1 + random() % 3};
        if (random() % 2 == 0 || span.offset < by)
          span.offset += by;
        else
          span.offset -= by;
        return "with an operand shifted in" + where;
      }
      case 9:
        shorten(*at, Elements{1 + random() % 2});
        return "with shorter operands in" + where;
      case 10: {
        const Recorded moved = *at;
        steps_.erase(at);
        const std::size_t to = random() % (steps_.size() + 1);
        steps_.insert(steps_.begin() + static_cast<std::ptrdiff_t>(to), moved);
        return "with" + where + " moved to " + std::to_string(to);
      }
      default: {
        const auto last = static_cast<std::uint8_t>(at->step.phase + 1);
        at->step.phase = at->step.phase > 0 && random() % 2 == 0 ? last - 2 : last;
        return "with another phase from" + where + " on";
      }
    }
  }

  /// Nothing when the builder already refuses it.
  std::optional<Schedule> build(int ranks) const try {
    constexpr Elements any_output{1 << 20};
    ScheduleBuilder s{Group::world(ranks, self_), extents_.input, extents_.output, any_output};
    s.scratch(extents_.scratch);
    int phase = 0;
    for (const Recorded& recorded : steps_) {
      for (; phase < recorded.step.phase; ++phase) s.next_phase();
      record(s, recorded);
    }
    for (; phase + 1 < phases_; ++phase) s.next_phase();
    return std::move(s).build();
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }

 private:
  struct Recorded {
    Step step;
    std::vector<Span> sources;
  };

  static Span& operand_of(Recorded& recorded, std::mt19937_64& random) {
    const std::size_t which = random() % (recorded.sources.size() + 1);
    return which == 0 ? recorded.step.destination : recorded.sources[which - 1];
  }

  static void shorten(Recorded& recorded, Elements by) {
    by = std::min(by, recorded.step.destination.length);
    recorded.step.destination.length -= by;
    for (Span& source : recorded.sources) source.length -= by;
  }

  static void record(ScheduleBuilder& s, const Recorded& r) {
    const Step& step = r.step;
    switch (step.verb) {
      case Verb::copy:
        return s.copy(step.destination, first(r));
      case Verb::put:
        return s.put(step.peer, step.destination, first(r));
      case Verb::signal:
        return s.signal(step.peer);
      case Verb::wait:
        return s.wait(step.peer);
      case Verb::reduce:
        return step.completes ? s.complete(step.destination, r.sources)
                              : s.reduce(step.destination, r.sources);
    }
  }

  static Span first(const Recorded& recorded) {
    if (recorded.sources.empty()) throw InvalidArgument("a step that moves data has no source");
    return recorded.sources.front();
  }

  Rank self_;
  Extents extents_;
  int phases_;
  std::vector<Recorded> steps_;
};

}  // namespace capstan::testing
