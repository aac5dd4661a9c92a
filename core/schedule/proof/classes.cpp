// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/proof/classes.hpp"

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

namespace capstan::proof {
namespace {

bool is_callers(const Memory& memory) {
  return memory.kind == Memory::Kind::input || memory.kind == Memory::Kind::output;
}

template <class Visit>
void for_each_operand(const Effect& effect, const Visit& visit) {
  for (const Piece& piece : effect.destinations) visit(piece);
  for (const Piece& piece : effect.sources) visit(piece);
}

/// The part in which an offset lies.
template <class Parts>
const auto& part_at(const Parts& parts, std::uint64_t offset) {
  using Part = typename Parts::value_type;
  return *std::prev(std::ranges::upper_bound(parts, offset, {}, &Part::begin));
}

}  // namespace

Classes::Classes(const ByRank<std::vector<Effect>>& scripts, const BlockLayout& layout,
                 Budget& budget, Scratch scratch)
    : layout_(layout), scratch_(scratch) {
  add_blocks();
  for (const auto& script : scripts)
    for (const Effect& effect : script) note(effect, budget);
  close(budget);
  sort();
}

std::uint32_t Classes::add_axis(std::uint64_t end) {
  cuts_.push_back({0, end});
  return static_cast<std::uint32_t>(cuts_.size() - 1);
}

/// Blocks of one shape share their axes.
void Classes::add_blocks() {
  const auto blocks = layout_.blocks();
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const auto same = [&](std::size_t other) {
      return blocks[other].collective == blocks[b].collective &&
             blocks[other].shape == blocks[b].shape;
    };
    std::size_t kind = 0;
    while (!same(kind)) ++kind;
    kind_of_.push_back(kind);
    axes_of_kind_.push_back(static_cast<std::uint32_t>(cuts_.size()));
    if (kind < b) continue;
    if (!has_counts(blocks[b].collective)) add_axis(blocks[b].shape.count.value());
    for (const Elements count : blocks[b].shape.counts) add_axis(count.value());
    add_buffers(kind);
  }
}

void Classes::add_buffers(std::size_t kind) {
  for (const Rank rank : all_ranks(layout_.blocks()[kind].ranks))
    for (const Kind buffer : {Kind::input, Kind::output})
      parts_of({.kind = buffer, .owner = rank, .instance = static_cast<int>(kind)});
}

Classes::Key Classes::key_of(const Memory& memory) const {
  const std::size_t kind =
      is_callers(memory) ? kind_of_[static_cast<std::size_t>(memory.instance)] : 0;
  const bool is_alike = memory.kind == Kind::scratch && scratch_ == Scratch::alike;
  return {kind, memory.kind, is_alike ? Rank{0} : memory.owner, memory.region, memory.form};
}

const Classes::Parts& Classes::parts_of(const Memory& memory) {
  const auto [entry, is_new] = parts_.try_emplace(key_of(memory));
  Parts& parts = entry->second;
  if (!is_new) return parts;
  const std::uint64_t extent = layout_.extent(memory).value();
  if (!is_callers(memory)) return parts = {{0, add_axis(extent)}};
  if (extent > 0) parts = parts_of_buffer(std::get<0>(entry->first), memory);
  parts.push_back({extent, add_axis(0)});  // beyond the buffer, where only wrong steps go
  return parts;
}

/// The parts in which the blocks of ranks lie, or one.
Classes::Parts Classes::parts_of_buffer(std::size_t kind, const Memory& memory) const {
  const BlockLayout::Block& block = layout_.blocks()[kind];
  const int owner = memory.owner.value();
  const bool input = memory.kind == Kind::input;
  const Contract contract = block.contract();
  const auto blocks = input ? contract.input_blocks(owner) : contract.output_blocks(owner);
  const auto axis_of = [&](int part) {
    if (!has_counts(block.collective)) return axes_of_kind_[kind];
    int index = part;
    if (block.collective == Collective::all_to_all_v)
      index = input ? owner * block.ranks + part : part * block.ranks + owner;
    return axes_of_kind_[kind] + static_cast<std::uint32_t>(index);
  };
  if (!blocks) return {{0, axis_of(owner)}};
  Parts parts;
  for (int part = 0; part < blocks->size(); ++part)
    if (const Range range = (*blocks)[part]; !range.empty())
      parts.push_back({range.offset.value(), axis_of(part)});
  return parts;
}

/// Takes the operation apart where an operand begins another part.
void Classes::note(const Effect& effect, Budget& budget) {
  constexpr std::uint64_t effect_cost = 250, operand_cost = 75;
  constexpr std::uint64_t wide_cost = 300;  // a further operand's link and cuts take memory
  budget.spend(effect_cost);
  if (effect.length == Elements{0}) return;
  const std::uint64_t length = effect.length.value();
  std::vector<std::uint64_t> ends{0, length};
  of_operands_.clear();
  for_each_operand(effect, [&](const Piece& operand) {
    const Parts& parts = *of_operands_.emplace_back(&parts_of(operand.memory));
    const std::uint64_t begin = operand.offset.value();
    for (auto part = std::ranges::upper_bound(parts, begin, {}, &Part::begin);
         part != parts.end() && part->begin < begin + length; ++part)
      ends.push_back(part->begin - begin);
  });
  std::ranges::sort(ends);
  ends.erase(std::ranges::unique(ends).begin(), ends.end());
  const std::uint64_t operands = of_operands_.size();
  budget.spend(
      (operand_cost * operands + wide_cost * (operands - std::min<std::uint64_t>(operands, 3))) *
      (ends.size() - 1));
  for (std::size_t i = 1; i < ends.size(); ++i) note_run(effect, ends[i - 1], ends[i]);
}

/// Elements of an operation, whose operands lie in one part each.
void Classes::note_run(const Effect& effect, std::uint64_t from, std::uint64_t to) {
  Point first{};
  std::size_t number = 0;
  for_each_operand(effect, [&](const Piece& operand) {
    const std::uint64_t begin = operand.offset.value() + from;
    const Part& part = part_at(*of_operands_[number], begin);
    const Point point{part.axis, begin - part.begin};
    cuts_[point.axis].insert(point.offset);
    cuts_[point.axis].insert(point.offset + to - from);
    if (number++ == 0)
      first = point;
    else if (point != first && to - from > 1)
      links_.push_back({std::min(first, point), std::max(first, point), to - from});
  });
}

/// Carries each cut along all links, until nothing is new.
void Classes::close(Budget& budget) {
  constexpr std::uint64_t cut_cost = 200, end_cost = 3;
  std::ranges::sort(links_);
  links_.erase(std::ranges::unique(links_).begin(), links_.end());
  struct End {
    std::uint64_t begin, length;
    Point other;
  };
  std::vector<std::vector<End>> ends(cuts_.size());
  for (const auto& [a, b, length] : links_) {
    ends[a.axis].push_back({a.offset, length, b});
    ends[b.axis].push_back({b.offset, length, a});
  }
  for (auto& of_axis : ends) std::ranges::sort(of_axis, {}, &End::begin);
  std::deque<Point> open;
  for (std::uint32_t axis = 0; axis < cuts_.size(); ++axis)
    for (const std::uint64_t cut : cuts_[axis]) open.push_back({axis, cut});
  for (; !open.empty(); open.pop_front()) {
    const auto [axis, cut] = open.front();
    budget.spend(cut_cost + end_cost * ends[axis].size());
    for (const End& end : ends[axis]) {
      if (end.begin >= cut) break;
      if (cut >= end.begin + end.length) continue;
      const Point other{end.other.axis, end.other.offset + cut - end.begin};
      if (cuts_[other.axis].insert(other.offset).second) open.push_back(other);
    }
  }
}

void Classes::sort() {
  for (const auto& cuts : cuts_) sorted_.emplace_back(cuts.begin(), cuts.end());
  for (auto& [memory, parts] : parts_)
    for (std::size_t i = 1; i < parts.size(); ++i)
      parts[i].classes = parts[i - 1].classes + sorted_[parts[i - 1].axis].size() - 1;
}

Shape Classes::reduced(std::size_t block) const {
  const BlockLayout::Block& full = layout_.blocks()[block];
  std::size_t axis = axes_of_kind_[kind_of_[block]];
  const auto classes = [&] { return Elements{sorted_[axis++].size() - 1}; };
  Shape shape = full.shape;
  if (!has_counts(full.collective)) shape.count = classes();
  for (Elements& count : shape.counts) count = classes();
  return shape;
}

std::vector<std::uint64_t> Classes::cuts_of_scratch() const {
  const auto known = parts_.find({0, Kind::scratch, Rank{0}, 0, 0});
  return known == parts_.end() ? std::vector<std::uint64_t>{0}
                               : sorted_[known->second.front().axis];
}

/// Beyond the last cut at or before the offset nothing counts: an extent need not be a cut.
Elements Classes::reduced(const Memory& memory, Elements offset) const {
  const auto known = parts_.find(key_of(memory));
  if (known == parts_.end()) return offset;
  const Part& part = part_at(known->second, offset.value());
  const auto& cuts = sorted_[part.axis];
  const auto after = std::ranges::upper_bound(cuts, offset.value() - part.begin);
  return Elements{part.classes + static_cast<std::uint64_t>(after - cuts.begin()) - 1};
}

Elements Classes::first_element(const Memory& memory, Elements number) const {
  const auto known = parts_.find(key_of(memory));
  if (known == parts_.end()) return number;
  const Parts& parts = known->second;
  const Part& part =
      *std::prev(std::ranges::upper_bound(parts, number.value(), {}, &Part::classes));
  const auto& cuts = sorted_[part.axis];
  const std::uint64_t index = std::min(number.value() - part.classes, cuts.size() - 1);
  return Elements{part.begin + cuts[index]};
}

void Classes::reduce(Effect& effect) const {
  if (effect.length == Elements{0}) return;
  const Piece& first = effect.destinations.front();
  effect.length =
      reduced(first.memory, first.offset + effect.length) - reduced(first.memory, first.offset);
  for (auto* const pieces : {&effect.destinations, &effect.sources})
    for (Piece& piece : *pieces) piece.offset = reduced(piece.memory, piece.offset);
}

ByRank<std::vector<Effect>> Classes::reduced(ByRank<std::vector<Effect>> scripts,
                                             Budget& budget) const {
  constexpr std::uint64_t effect_cost = 300;
  for (auto& script : scripts) {
    for (Effect& effect : script) {
      reduce(effect);
      if (effect.one_by_one) budget.spend(effect_cost * effect.length.value());
    }
    if (std::ranges::any_of(script, &Effect::one_by_one)) script = one_by_one(std::move(script));
  }
  return scripts;
}

std::vector<Effect> Classes::one_by_one(std::vector<Effect> script) {
  std::vector<Effect> apart;
  for (Effect& effect : script) {
    const Elements length = effect.length;
    if (effect.one_by_one) effect.length = std::min(length, Elements{1});
    apart.push_back(std::move(effect));
    for (Elements i{1}; apart.back().one_by_one && i < length; i += Elements{1}) {
      Effect next = apart.back();
      for (auto* const pieces : {&next.destinations, &next.sources})
        for (Piece& piece : *pieces) piece.offset += Elements{1};
      apart.push_back(std::move(next));
    }
  }
  return apart;
}

ClassLayout::ClassLayout(const BlockLayout& elements, const Classes& classes)
    : BlockLayout(elements.in_place()), elements_(elements), classes_(classes) {
  for (std::size_t i = 0; i < elements.blocks().size(); ++i) {
    Block block = elements.blocks()[i];
    block.shape = classes.reduced(i);
    add(block);
  }
}

}  // namespace capstan::proof
