#include "core/custom/scaled_schedules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "capstan/error.hpp"
#include "core/interchange/formats.hpp"
#include "core/interchange/step_recorder.hpp"

namespace capstan {

/// Where the units of a file lie in a call of another size.
class ScaledSchedules::Scale {
 public:
  Scale(std::uint64_t units, Elements count)
      : units_(units), count_(count), longest_((count.value() + units - 1) / units) {}

  Elements length(std::uint64_t unit) const { return block(unit).length; }
  /// Of a unit of a buffer.
  Elements offset(Buffer buffer, std::uint64_t unit) const {
    if (buffer == Buffer::scratch) return Elements{unit * longest_};
    return count_ * (unit / units_) + block(unit % units_).offset;
  }
  Elements extent(Buffer buffer, Elements units) const { return offset(buffer, units.value()); }

 private:
  Range block(std::uint64_t unit) const {
    return nth_block(count_, static_cast<int>(units_), static_cast<int>(unit));
  }

  std::uint64_t units_;
  Elements count_;
  std::uint64_t longest_;
};

ScaledSchedules::ScaledSchedules(const ScheduleSet& set)
    : original_(set),
      units_(in_units(set)),
      length_(std::max<std::uint64_t>(units_.shape.count.value(), 1)),
      of_step_(set.schedules.size()) {
  follow();
}

void ScaledSchedules::follow() {
  struct Place {
    int time;
    Rank rank;
    std::size_t step;
  };
  std::vector<Place> order;
  const auto times = step_times(units_.schedules);
  for (const Rank rank : all_ranks(times.size())) {
    of_step_[rank].resize(times[rank].size());
    for (std::size_t i = 0; i < times[rank].size(); ++i) order.push_back({times[rank][i], rank, i});
  }
  std::ranges::stable_sort(order, {}, &Place::time);

  ByRank<std::map<std::uint64_t, std::uint32_t>> scratch(times.size());  // what is in its units
  for (const auto& [time, rank, index] : order) {
    const Schedule& schedule = units_.schedules[rank];
    const Step& step = schedule.steps()[index];
    if (step.verb == Verb::signal || step.verb == Verb::wait) continue;
    const Span& source = schedule.sources(step).front();
    const Rank owner = step.verb == Verb::put ? step.peer : rank;
    for (std::uint64_t k = 0; k < source.length.value(); ++k) {
      const std::uint64_t from = source.offset.value() + k,
                          to = step.destination.offset.value() + k;
      const std::uint32_t unit = source.buffer == Buffer::scratch
                                     ? scratch[rank][from]
                                     : static_cast<std::uint32_t>(from % length_);
      of_step_[rank][index].push_back(unit);
      if (step.destination.buffer == Buffer::scratch) scratch[owner][to] = unit;
    }
  }
}

/// How far ranks are turned round for another root.
int ScaledSchedules::turn_to(int root) const {
  const Collective collective = original_.collective;
  if (!has_root(collective) || root == original_.shape.root) return 0;
  if (collective == Collective::broadcast || collective == Collective::reduce)
    return root - original_.shape.root;
  throw InvalidArgument(
      fmt::format("the schedule '{}' of {} is for root {}, not {}: use that root, "
                  "or leave the rule for it out",
                  original_.algorithm, name_of(collective), original_.shape.root, root));
}

Schedule ScaledSchedules::schedule(const Group& group, const Shape& shape) const {
  if (shape == original_.shape) return original_.schedules[Rank{group.position()}];
  if (has_counts(original_.collective))
    throw InvalidArgument(fmt::format("the schedule '{}' of {} is for its own counts only",
                                      original_.algorithm, name_of(original_.collective)));
  return scaled(group, shape, turn_to(shape.root));
}

Schedule ScaledSchedules::scaled(const Group& group, const Shape& shape, int turn) const {
  const int position = group.wrap(group.position() - turn);
  const Schedule& steps = units_.schedules[Rank{position}];
  const Scale scale{length_, shape.count};
  const auto& [input, output, scratch] = steps.extents();
  const Contract contract{original_.collective, shape, group.size()};
  StepRecorder recorder{contract,
                        Hosts{group.size()},
                        group.self(),
                        {scale.extent(Buffer::input, input), scale.extent(Buffer::output, output),
                         scale.extent(Buffer::scratch, scratch)}};
  for (std::size_t i = 0; i < steps.steps().size(); ++i) {
    Step step = steps.steps()[i];
    const auto& of_step = of_step_[Rank{position}][i];
    step.peer = group[group.wrap(step.peer.value() + turn)];
    if (of_step.empty()) {
      recorder.record(step, {});
      continue;
    }
    std::vector<Span> operands{step.destination};  // in units; the destination, then the sources
    for (const Span& source : steps.sources(step)) operands.push_back(source);
    // Units that follow one another in every operand are one step.
    std::vector<Span> piece;
    const auto flush = [&] {
      if (piece.empty() || piece.front().empty()) return;
      step.destination = piece.front();
      recorder.record(step, std::span{piece}.subspan(1));
    };
    for (std::size_t k = 0; k < of_step.size(); ++k) {
      const Elements length = scale.length(of_step[k]);
      std::vector<Span> next;
      for (const Span& operand : operands)
        next.push_back(
            {operand.buffer, scale.offset(operand.buffer, operand.offset.value() + k), length});
      bool follows = !piece.empty();
      for (std::size_t o = 0; follows && o < next.size(); ++o)
        follows = piece[o].end() == next[o].offset;
      if (follows) {
        for (Span& span : piece) span.length += length;
      } else {
        flush();
        piece = std::move(next);
      }
    }
    flush();
  }
  return std::move(recorder).build(steps.phases());
}

}  // namespace capstan
