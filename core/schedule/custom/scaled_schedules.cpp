// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/custom/scaled_schedules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "capstan/error.hpp"
#include "core/schedule/interchange/formats.hpp"
#include "core/schedule/interchange/step_recorder.hpp"

namespace capstan {

namespace {

/// The number of a cut.
std::size_t index_of(const std::vector<std::uint64_t>& cuts, std::uint64_t offset) {
  return static_cast<std::size_t>(std::ranges::lower_bound(cuts, offset) - cuts.begin());
}

/// "3, 4, 5", or the first of many.
std::string listed(const std::vector<Elements>& counts) {
  constexpr std::size_t most = 16;
  std::string list;
  for (std::size_t i = 0; i < std::min(counts.size(), most); ++i)
    list += fmt::format("{}{}", i == 0 ? "" : ", ", counts[i].value());
  return list + (counts.size() > most ? ", ..." : "");
}

}  // namespace

/// Where the classes of a file lie in a call of another size.
class ScaledSchedules::Scale {
 public:
  /// A file of `units`, for a call of `count` elements.
  Scale(const ScaledSchedules& of, Elements count) : of_(of), count_(count) {
    for (const std::uint64_t cut : of.cuts_.block) block_.push_back(begin_of(cut / of.unit_));
    const auto& cuts = of.cuts_.scratch;
    scratch_.push_back(0);
    for (std::size_t i = 1; i < cuts.size(); ++i)
      scratch_.push_back(scratch_.back() + begin_of((cuts[i] - cuts[i - 1]) / of.unit_));
  }

  /// The length of a class of a block.
  Elements length(std::size_t number) const {
    return Elements{block_[number + 1] - block_[number]};
  }
  /// The offset of a cut.
  Elements offset(Buffer buffer, Elements cut) const {
    if (buffer == Buffer::scratch) {
      const std::size_t number = index_of(of_.cuts_.scratch, cut.value());
      return Elements{scratch_[std::min(number, scratch_.size() - 1)]};  // what nobody uses: none
    }
    const std::uint64_t blocks = cut.value() / of_.length_, rest = cut.value() % of_.length_;
    return count_ * blocks + Elements{block_[index_of(of_.cuts_.block, rest)]};
  }

 private:
  /// The first element of a unit, as nth_block cuts. So many units in a row are never longer.
  std::uint64_t begin_of(std::uint64_t unit) const {
    const std::uint64_t units = of_.length_ / of_.unit_, count = count_.value();
    return unit * (count / units) + std::min(unit, count % units);
  }

  const ScaledSchedules& of_;
  const Elements count_;
  std::vector<std::uint64_t> block_, scratch_;  // by cut
};

ScaledSchedules::ScaledSchedules(const ScheduleSet& set, proof::Budget& budget)
    : original_(set),
      cuts_(has_counts(set.collective)
                ? proof::Cuts{}
                : proof::cuts_of(set.collective, set.shape, set.schedules, budget)),
      length_(std::max<std::uint64_t>(set.shape.count.value(), 1)),
      unit_(length_ / std::max<std::uint64_t>(in_units(set).shape.count.value(), 1)),
      of_step_(set.schedules.size()) {
  if (!has_counts(set.collective)) follow(budget);
}

/// The length of the class of the file that begins here.
std::uint64_t ScaledSchedules::length_at(const Span& span) const {
  const bool scratch = span.buffer == Buffer::scratch;
  const auto& cuts = scratch ? cuts_.scratch : cuts_.block;
  const std::uint64_t offset = scratch ? span.offset.value() : span.offset.value() % length_;
  return cuts[index_of(cuts, offset) + 1] - offset;
}

void ScaledSchedules::follow(proof::Budget& budget) {
  constexpr std::uint64_t class_cost = 200;
  struct Place {
    int time;
    Rank rank;
    std::size_t step;
  };
  std::vector<Place> order;
  const auto times = step_times(original_.schedules);
  for (const Rank rank : all_ranks(times.size())) {
    of_step_[rank].resize(times[rank].size());
    for (std::size_t i = 0; i < times[rank].size(); ++i) order.push_back({times[rank][i], rank, i});
  }
  std::ranges::stable_sort(order, {}, &Place::time);

  ByRank<std::map<std::uint64_t, std::size_t>> scratch(times.size());  // what is in its classes
  for (const auto& [time, rank, index] : order) {
    const Schedule& schedule = original_.schedules[rank];
    const Step& step = schedule.steps()[index];
    if (step.verb == Verb::signal || step.verb == Verb::wait) continue;
    const Rank owner = step.verb == Verb::put ? step.peer : rank;
    Span from = schedule.sources(step).front(), to = step.destination;
    while (!from.empty()) {
      budget.spend(class_cost);
      const Elements length{length_at(from)};
      const std::size_t number = from.buffer == Buffer::scratch
                                     ? scratch[rank][from.offset.value()]
                                     : index_of(cuts_.block, from.offset.value() % length_);
      of_step_[rank][index].push_back(number);
      if (to.buffer == Buffer::scratch) scratch[owner][to.offset.value()] = number;
      from.offset += length, from.length -= length, to.offset += length;
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
    throw InvalidArgument(
        fmt::format("the schedule '{}' of {} is for its own counts, {}, only, not {}: call it with "
                    "those, or leave the rule for it out",
                    original_.algorithm, name_of(original_.collective),
                    listed(original_.shape.counts), listed(shape.counts)));
  return scaled(group, shape, turn_to(shape.root));
}

Schedule ScaledSchedules::scaled(const Group& group, const Shape& shape, int turn) const {
  const Rank position{group.wrap(group.position() - turn)};
  const Schedule& file = original_.schedules[position];
  const Scale scale{*this, shape.count};
  const auto& [input, output, scratch] = file.extents();
  const Contract contract{original_.collective, shape, group.size()};
  StepRecorder recorder{Hosts{group.size()},
                        group.self(),
                        {scale.offset(Buffer::input, input), scale.offset(Buffer::output, output),
                         scale.offset(Buffer::scratch, scratch)},
                        contract.largest_output()};
  for (std::size_t i = 0; i < file.steps().size(); ++i) {
    Step step = file.steps()[i];
    step.peer = group[group.wrap(step.peer.value() + turn)];
    std::vector<Span> operands{step.destination};  // of the file; the destination, then the sources
    for (const Span& source : file.sources(step)) operands.push_back(source);
    const auto& of_step = of_step_[position][i];
    if (of_step.empty()) recorder.record(step, {});
    // Classes that follow one another in every operand are one step.
    for (const auto& piece : pieces_of(operands, of_step, scale)) {
      step.destination = piece.front();
      recorder.record(step, std::span{piece}.subspan(1));
    }
  }
  return std::move(recorder).build(file.phases());
}

/// The operands of a step in a call of another size, cut where they do not stay together.
std::vector<std::vector<Span>> ScaledSchedules::pieces_of(std::vector<Span> operands,
                                                          const ClassesOfStep& of_step,
                                                          const Scale& scale) const {
  std::vector<std::vector<Span>> pieces;
  for (const std::size_t number : of_step) {
    const Elements in_file{length_at(operands.front())}, length = scale.length(number);
    std::vector<Span> next;
    for (Span& operand : operands) {
      next.push_back({operand.buffer, scale.offset(operand.buffer, operand.offset), length});
      operand.offset += in_file;
    }
    if (length == Elements{0}) continue;
    const auto follows = [&](const std::vector<Span>& piece) {
      for (std::size_t o = 0; o < next.size(); ++o)
        if (piece[o].end() != next[o].offset) return false;
      return true;
    };
    if (pieces.empty() || !follows(pieces.back()))
      pieces.push_back(std::move(next));
    else
      for (Span& span : pieces.back()) span.length += length;
  }
  return pieces;
}

}  // namespace capstan
