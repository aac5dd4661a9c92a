// SPDX-License-Identifier: Apache-2.0
#include "capstan/collective.hpp"

#include <algorithm>
#include <array>

namespace capstan {
namespace {

using enum Collective;

constexpr std::array collectives{barrier,          broadcast,      reduce,    all_reduce,
                                 all_gather,       reduce_scatter, gather,    scatter,
                                 all_to_all,       scan,           exscan,    all_gather_v,
                                 reduce_scatter_v, gather_v,       scatter_v, all_to_all_v};
constexpr std::array<std::string_view, collectives.size()> names{
    "barrier",          "broadcast", "reduce",     "all_reduce",  "all_gather", "reduce_scatter",
    "gather",           "scatter",   "all_to_all", "scan",        "exscan",     "all_gather_v",
    "reduce_scatter_v", "gather_v",  "scatter_v",  "all_to_all_v"};

template <class... Collectives>
bool is_one_of(Collective collective, Collectives... others) {
  return ((collective == others) || ...);
}

bool at_root(const Shape& shape, int position) {
  return shape.root == position;
}

/// The block that holds element `index`, and the element's offset in that block.
std::pair<int, Elements> locate(const Blocks& blocks, Elements index) {
  int block = 0;
  while (blocks[block].end() <= index) ++block;
  return {block, index - blocks[block].offset};
}

}  // namespace

std::span<const Collective> all_collectives() {
  return collectives;
}
std::string_view name_of(Collective collective) {
  return names[static_cast<std::size_t>(collective)];
}
std::optional<Collective> collective_named(std::string_view name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return collectives[static_cast<std::size_t>(found - names.begin())];
}

bool has_root(Collective collective) {
  return is_one_of(collective, broadcast, reduce, gather, scatter, gather_v, scatter_v);
}
bool reduces(Collective collective) {
  return is_one_of(collective, reduce, all_reduce, reduce_scatter, reduce_scatter_v, scan, exscan);
}
bool overwrites_input(Collective collective) {
  switch (collective) {
    case Collective::all_to_all:
    case Collective::all_to_all_v:
    case Collective::scan:
    case Collective::exscan:
      return true;
    default:
      return false;
  }
}

bool has_counts(Collective collective) {
  return is_one_of(collective, all_gather_v, reduce_scatter_v, gather_v, scatter_v, all_to_all_v);
}

Blocks Contract::per_rank() const {
  return has_counts(collective_) ? Blocks{shape_.counts} : Blocks::equal(ranks_, shape_.count);
}

Blocks Contract::sent_by(int position) const {
  if (collective_ == all_to_all) return per_rank();
  const auto p = static_cast<std::size_t>(ranks_), row = static_cast<std::size_t>(position) * p;
  return Blocks{std::span{shape_.counts}.subspan(row, p)};
}

Blocks Contract::received_by(int position) const {
  if (collective_ == all_to_all) return per_rank();
  std::vector<Elements> column;
  for (int from = 0; from < ranks_; ++from)
    column.push_back(shape_.counts[static_cast<std::size_t>(from * ranks_ + position)]);
  return Blocks{column};
}

BufferLengths Contract::lengths(int position) const {
  const Elements none{0}, n = shape_.count;
  switch (collective_) {
    case barrier:
      return {none, none};
    case broadcast:
      return {at_root(shape_, position) ? n : none, n};
    case reduce:
      return {n, at_root(shape_, position) ? n : none};
    case all_reduce:
    case scan:
    case exscan:
      return {n, n};
    case all_gather:
    case all_gather_v:
      return {per_rank()[position].length, per_rank().total()};
    case gather:
    case gather_v:
      return {per_rank()[position].length, at_root(shape_, position) ? per_rank().total() : none};
    case reduce_scatter:
    case reduce_scatter_v:
      return {per_rank().total(), per_rank()[position].length};
    case scatter:
    case scatter_v:
      return {at_root(shape_, position) ? per_rank().total() : none, per_rank()[position].length};
    case all_to_all:
    case all_to_all_v:
      return {sent_by(position).total(), received_by(position).total()};
  }
  return {};
}

std::optional<Blocks> Contract::input_blocks(int position) const {
  if (is_one_of(collective_, reduce_scatter, reduce_scatter_v, scatter, scatter_v))
    return per_rank();
  if (is_one_of(collective_, all_to_all, all_to_all_v)) return sent_by(position);
  return std::nullopt;
}

std::optional<Blocks> Contract::output_blocks(int position) const {
  if (is_one_of(collective_, all_gather, all_gather_v, gather, gather_v)) return per_rank();
  if (is_one_of(collective_, all_to_all, all_to_all_v)) return received_by(position);
  return std::nullopt;
}

Contract::Placement Contract::in_place(int position) const {
  const bool inside = !has_root(collective_) || at_root(shape_, position);
  if (is_one_of(collective_, all_gather, all_gather_v, gather, gather_v) && inside)
    return {.input = per_rank()[position].offset};
  if (is_one_of(collective_, reduce_scatter, reduce_scatter_v, scatter, scatter_v) && inside)
    return {.output = per_rank()[position].offset};
  // Blocks of any length would overwrite each other: the output lies behind the input.
  if (collective_ == all_to_all_v) return {.output = sent_by(position).total()};
  return {};
}

Contract::Promise Contract::promise(int position, Elements index) const {
  const int everyone = ranks_ - 1;
  switch (collective_) {
    case broadcast:
      return {shape_.root, shape_.root, index};
    case reduce:
    case all_reduce:
      return {0, everyone, index};
    case scan:
      return {0, position, index};
    case exscan:
      return {0, position - 1, index};
    case all_gather:
    case all_gather_v:
    case gather:
    case gather_v: {
      const auto [from, offset] = locate(per_rank(), index);
      return {from, from, offset};
    }
    case reduce_scatter:
    case reduce_scatter_v:
      return {0, everyone, per_rank()[position].offset + index};
    case scatter:
    case scatter_v:
      return {shape_.root, shape_.root, per_rank()[position].offset + index};
    case all_to_all:
    case all_to_all_v: {
      const auto [from, offset] = locate(received_by(position), index);
      return {from, from, sent_by(from)[position].offset + offset};
    }
    case barrier:
      break;
  }
  return {0, -1, index};
}

Elements Contract::extent() const {
  Elements largest = shape_.count;
  if (collective_ == all_to_all_v)
    for (int rank = 0; rank < ranks_; ++rank)
      largest = std::max({largest, sent_by(rank).total(), received_by(rank).total()});
  else if (input_blocks(0) || output_blocks(0))
    largest = per_rank().total();
  return largest;
}

Elements Contract::largest_output() const {
  Elements largest{};
  for (int rank = 0; rank < ranks_; ++rank) largest = std::max(largest, lengths(rank).output);
  return largest;
}

Elements Contract::typical_count() const {
  if (!has_counts(collective_)) return shape_.count;
  Elements total;
  for (const Elements count : shape_.counts) total += count;
  return total / std::max<std::uint64_t>(shape_.counts.size(), 1);
}

}  // namespace capstan
