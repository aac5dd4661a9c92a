// SPDX-License-Identifier: Apache-2.0

// Communicators that are made from others.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/communicator/communicator_prepared.hpp"
#include "core/engine/run/agreement.hpp"
#include "core/engine/world/world.hpp"

namespace capstan {

std::optional<Communicator> Communicator::split(int colour, int key) {
  struct Answer {
    std::int32_t colour, key;
  };
  CollectiveExchange exchange{Impl::of(*this).engine};
  const auto all = gather_answers(exchange, Answer{colour, key}, "colour", Purpose::split);
  std::vector<Rank> members;
  for (int peer = 0; peer < size(); ++peer)
    if (all[Rank{peer}].colour == colour) members.emplace_back(peer);
  std::ranges::stable_sort(members, {}, [&](Rank rank) { return all[rank].key; });
  if (colour < 0) members.clear();
  return form(members, Purpose::split);
}

namespace {

/// The list that a rank has passed to subgroup(), as far as errors show it.
struct ListAnswer {
  static constexpr std::size_t most = 60;

  std::uint64_t digest = 0;
  std::uint32_t length = 0;
  std::int32_t first[most]{};

  explicit ListAnswer(std::span<const int> ranks = {})
      : length(static_cast<std::uint32_t>(ranks.size())) {
    std::ranges::copy(ranks.first(std::min(ranks.size(), most)), first);
    for (const int rank : ranks) digest = extend(digest, static_cast<std::uint64_t>(rank) + 1);
  }
  bool operator==(const ListAnswer&) const = default;
  std::string text() const {
    const auto shown = std::span{first}.first(std::min<std::size_t>(length, most));
    return fmt::format("{}{}", fmt::join(shown, ", "), length > most ? ", ..." : "");
  }
};

/// All ranks see the same lists, and throw alike.
void check_lists(const ByRank<ListAnswer>& lists) {
  for (int rank = 1; rank < lists.size(); ++rank)
    if (!(lists[Rank{rank}] == lists[Rank{0}]))
      throw Mismatch(fmt::format(
          "ranks disagree about subgroup(): rank 0 passed the ranks {}, rank {} passed {}: all "
          "ranks must pass the same list, those outside it, too",
          lists[Rank{0}].text(), rank, lists[Rank{rank}].text()));
}

}  // namespace

/// Whether this rank is in the list. Throws InvalidArgument for a list that is none of a group.
bool Communicator::is_listed(const char* call, std::span<const int> ranks) const {
  std::vector<int> members(ranks.begin(), ranks.end());
  std::ranges::sort(members);
  const bool repeats = std::ranges::adjacent_find(members) != members.end();
  if (members.empty() || repeats || members.front() < 0 || members.back() >= size())
    throw InvalidArgument(fmt::format("rank {}: {}({}): pass each rank once, from 0 to {}", rank(),
                                      call, fmt::join(ranks, ", "), size() - 1));
  return std::ranges::binary_search(members, rank());
}

std::optional<Communicator> Communicator::subgroup(std::span<const int> ranks) {
  const bool inside = is_listed("subgroup", ranks);
  CollectiveExchange exchange{Impl::of(*this).engine};
  check_lists(gather_answers(exchange, ListAnswer{ranks}, "list", Purpose::subgroup));
  return form(inside ? std::vector<Rank>(ranks.begin(), ranks.end()) : std::vector<Rank>{},
              Purpose::subgroup);
}

Communicator Communicator::create_group(std::span<const int> ranks, int tag) {
  if (!is_listed("create_group", ranks))
    throw InvalidArgument(fmt::format("rank {}: create_group({}): only members call it", rank(),
                                      fmt::join(ranks, ", ")));
  if (tag < 0 || tag > Messages::largest_group_tag)
    throw InvalidArgument(fmt::format("rank {}: create_group with tag {}: tags are 0 to {}", rank(),
                                      tag, Messages::largest_group_tag));
  Impl& impl = Impl::of(*this);
  const std::vector<Rank> members(ranks.begin(), ranks.end());
  return Communicator{
      std::make_unique<Impl>(make_group_of_members(impl.member, members, tag), impl.staging)};
}

/// Forms groups. All ranks take part, also ranks that get no group.
std::optional<Communicator> Communicator::form(const std::vector<Rank>& members, Purpose purpose) {
  auto member = make_group(Impl::of(*this).member, members, purpose);
  if (!member) return std::nullopt;
  return Communicator{std::make_unique<Impl>(std::move(*member), Impl::of(*this).staging)};
}

Communicator Communicator::shrink(const ShrinkOptions& options) {
  Impl& impl = Impl::of(*this);
  impl.engine.progress()->require_own_process();
  if (!options.exclude.empty() && is_listed("shrink: exclude", options.exclude))
    throw InvalidArgument(
        fmt::format("rank {}: shrink() excludes this rank: only ranks that stay call it", rank()));
  Shrinking shrinking{.minority = options.minority_continues};
  for (const int rank : options.exclude) shrinking.excluded.emplace_back(rank);
  return Communicator{std::make_unique<Impl>(make_shrunk(impl.member, shrinking), impl.staging)};
}

Communicator Communicator::grow(int joiners, const MeetingPlace& place) {
  Impl& impl = Impl::of(*this);
  impl.engine.progress()->require_own_process();
  return Communicator{
      std::make_unique<Impl>(make_grown(impl.member, {joiners, place}), impl.staging)};
}

Communicator Communicator::with_algorithm(const std::string& rules) {
  Settings settings = Impl::of(*this).engine.settings();
  settings.algorithm = rules;
  return Communicator{
      std::make_unique<Impl>(make_twin(Impl::of(*this).member, settings), Impl::of(*this).staging)};
}

Communicator Communicator::with_reproducible(Reproducible promise) {
  Settings settings = Impl::of(*this).engine.settings();
  settings.reproducible = promise;
  return Communicator{
      std::make_unique<Impl>(make_twin(Impl::of(*this).member, settings), Impl::of(*this).staging)};
}

}  // namespace capstan
