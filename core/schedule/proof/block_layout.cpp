// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/proof/block_layout.hpp"

namespace capstan::proof {
namespace {

struct Wrong {
  Flaw flaw;
  std::string what;
};

/// The flaw of a value that should hold `promise`, if there is one.
std::optional<Wrong> wrong_value(const Values& values, ValueId value, int block,
                                 const Contract::Promise& promise) {
  const auto& terms = values.terms(value);
  for (const auto& [contribution, times] : terms) {
    if (contribution.index != promise.index) return Wrong{Flaw::misplaced, "another element's"};
    if (contribution.block != block) return Wrong{Flaw::misplaced, "another call's"};
    if (times > 1) return Wrong{Flaw::doubled, "one contribution more than once"};
    const int rank = contribution.rank.value();
    if (rank < promise.first || rank > promise.last)
      return Wrong{Flaw::misplaced, "another rank's"};
  }
  if (static_cast<int>(terms.size()) < promise.last - promise.first + 1)
    return Wrong{Flaw::missing, "not all contributions"};
  return std::nullopt;
}

/// Sums over all ranks are marked complete, so that an average is divided once.
bool has_complete_sums(Collective collective, int ranks) {
  return reduces(collective) && collective != Collective::scan &&
         collective != Collective::exscan && ranks > 1;
}

/// Whether all ranks get the same sums.
bool shares_sums(Collective collective) {
  return collective == Collective::all_reduce;
}

}  // namespace

void BlockLayout::add(const Block& block) {
  blocks_.push_back(block);
  Places& places = places_.emplace_back();
  const Contract contract = blocks_.back().contract();
  for (const Rank rank : all_ranks(block.ranks)) {
    places.lengths.push_back(contract.lengths(rank.value()));
    places.placements.push_back(contract.in_place(rank.value()));
  }
}

Elements BlockLayout::extent(const Memory& memory) const {
  const Rank owner = memory.owner;
  if (memory.kind != Memory::Kind::input && memory.kind != Memory::Kind::output)
    return extent_of_other(memory);
  const auto& lengths = places_[static_cast<std::size_t>(memory.instance)].lengths;
  if (owner.value() >= lengths.size()) return Elements{0};
  return memory.kind == Memory::Kind::input ? lengths[owner].input : lengths[owner].output;
}

Piece BlockLayout::home(const Piece& piece) const {
  const bool input = piece.memory.kind == Memory::Kind::input;
  if (!in_place_ || (!input && piece.memory.kind != Memory::Kind::output)) return piece;
  const auto& places = places_[static_cast<std::size_t>(piece.memory.instance)];
  const auto& placement = places.placements[piece.memory.owner];
  Piece home = piece;
  home.memory.kind = Memory::Kind::output;
  home.offset += input ? placement.input : placement.output;
  return home;
}

ResultFacts BlockLayout::check_results(Machine& machine) const {
  ResultFacts facts;
  if (!machine.findings().empty()) return facts;  // after a flaw results mean little
  for (std::size_t block = 0; block < blocks_.size(); ++block)
    for (const Rank rank : all_ranks(blocks_[block].ranks)) {
      const Elements length = places_[block].lengths[rank].output;
      for (Elements i; i < length; i += Elements{1})
        check_result(machine, static_cast<int>(block), rank, i, facts);
    }
  return facts;
}

void BlockLayout::check_result(Machine& machine, int number, Rank rank, Elements index,
                               ResultFacts& facts) const {
  const Block& block = blocks_[static_cast<std::size_t>(number)];
  const auto promise = block.contract().promise(rank.value(), index);
  const auto output_of = [&](Rank owner) {
    return Piece{{.kind = Memory::Kind::output, .owner = owner, .instance = number}, index};
  };
  const ValueId value = machine.value_at(output_of(rank));
  Values& values = machine.values();
  const bool is_promised = promise.first <= promise.last;
  const ValueId untouched =
      in_place_ ? values.contribution({number, rank, index}) : Values::nothing;
  std::optional<Wrong> wrong;
  if (is_promised)
    wrong = wrong_value(values, value, number, promise);
  else if (value != untouched)
    wrong = {Flaw::misplaced, "something where nothing is promised"};
  const bool has_to_be_complete = has_complete_sums(block.collective, block.ranks);
  if (!wrong && has_to_be_complete && !values.is_complete(value))
    wrong = {Flaw::unfinished, "a sum that was never marked complete"};
  if (!wrong && !has_to_be_complete && values.is_complete(value))
    wrong = {Flaw::overdone, "what was marked complete, so that an average would divide it"};
  const bool is_ordered = values.is_ordered(value);
  const bool is_same = !shares_sums(block.collective) ||
                       values.same_bits(value, machine.value_at(output_of(Rank{0})));
  facts.ordered = facts.ordered && is_ordered;
  facts.same_sums = facts.same_sums && is_same;
  const bool is_left_fold = values.is_left_fold(value);
  facts.left_fold = facts.left_fold && is_left_fold;
  const bool is_one_reduction = values.is_one_reduction(value);
  facts.rank_ordered_sum = facts.rank_ordered_sum && is_one_reduction;
  const bool is_host_ordered =
      block.claims.hosts && is_promised &&
      values.same_bits(value, values.sum_of_hosts({number, Rank{0}, promise.index},
                                                  *block.claims.hosts, has_to_be_complete));
  facts.host_ordered_sum = facts.host_ordered_sum && is_host_ordered;
  if (!wrong && block.claims.ordered && !is_ordered)
    wrong = {Flaw::out_of_order, "a sum that is not in the order of ranks"};
  if (!wrong && block.claims.same_sums && !is_same)
    wrong = {Flaw::unlike_sums,
             "a sum that was added in another order than rank 0's, so that it may round otherwise"};
  if (!wrong && block.claims.left_fold && !is_left_fold)
    wrong = {Flaw::out_of_order,
             "a sum that was not added one after the other in the order of ranks, so that it may "
             "round otherwise"};
  if (!wrong && block.claims.rank_ordered_sum && !is_one_reduction)
    wrong = {
        Flaw::out_of_order,
        "a sum that is not one reduction in the order of ranks, so that it may round otherwise"};
  if (!wrong && block.claims.host_ordered_sum && !is_host_ordered)
    wrong = {Flaw::out_of_order,
             "a sum that is not one reduction of the hosts' sums in their order, so that it may "
             "round otherwise"};
  if (!wrong) return;
  machine.report(wrong->flaw, rank, -1,
                 rank_name(rank) + " output[" +
                     std::to_string(element_at(output_of(rank)).value()) + "] of block " +
                     std::to_string(number) + " holds " + wrong->what + ": " +
                     describe(values, value));
}

std::string BlockLayout::describe(const Values& values, ValueId value) const {
  if (value == Values::nothing) return "nothing";
  std::string text;
  for (const auto& [contribution, times] : values.terms(value)) {
    if (!text.empty()) text += " + ";
    if (text.size() > 200) return text + "...";
    if (times > 1) text += std::to_string(times) + " x ";
    const auto& [block, rank, index] = contribution;
    const Piece element{{.owner = rank, .instance = block}, index};
    text += rank_name(rank) + "[" + std::to_string(element_at(element).value()) + "]";
  }
  return text;
}

}  // namespace capstan::proof
