// SPDX-License-Identifier: Apache-2.0

// Groups: communicators of some ranks of a parent communicator. Collectives of the parent form
// them, or messages between the members.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <new>

#include "capstan/error.hpp"
#include "core/engine/run/progress.hpp"
#include "core/engine/world/formation.hpp"
#include "core/engine/world/member_exchange.hpp"
#include "core/engine/world/world.hpp"
#include "core/platform/net/limits.hpp"

namespace capstan {
namespace {

/// Takes a step, and throws on every rank unless all ranks could take it.
template <class Step>
void together(Exchange& exchange, int rank, Purpose purpose, Step step) {
  std::string trouble;
  std::exception_ptr refused;  // what the program asks for, which all ranks ask for alike
  try {
    step();
  } catch (const InvalidArgument& error) {
    trouble = error.what(), refused = std::current_exception();
  } catch (const Error& error) {
    trouble = error.what();
  } catch (const std::bad_alloc&) {
    trouble = out_of_memory("it got no memory").what();
  }
  const bool all = holds_everywhere(exchange, trouble.empty(), "step", purpose);
  if (refused) std::rethrow_exception(refused);
  if (!trouble.empty())
    throw BootstrapError(fmt::format("rank {} could not form a group: {}", rank, trouble));
  if (!all)
    throw BootstrapError(
        fmt::format("rank {} could not form a group: another rank failed, see its error", rank));
}

/// The ranks that agree while a group is formed, and their exchange.
struct Agreeing {
  Exchange& exchange;
  bool members_alone;  ///< else all ranks of the parent
  Purpose purpose;
};

/// The announcements of the members, in their order.
std::vector<Announcement> announcements_of(const std::vector<Rank>& members,
                                           const Announcement& own, const Agreeing& agreeing) {
  const auto all = gather_answers(agreeing.exchange, own, "address", agreeing.purpose);
  if (agreeing.members_alone) return {all.begin(), all.end()};
  std::vector<Announcement> theirs;
  for (const Rank member : members) theirs.push_back(all[member]);
  return theirs;
}

std::optional<Member> make_group(Member& parent, const std::vector<Rank>& members,
                                 const Settings& settings, const Agreeing& agreeing) {
  const auto& [exchange, members_alone, purpose] = agreeing;
  Engine& engine = *parent.engine;
  Formation formation{engine, members};
  Announcement own;
  together(exchange, engine.rank(), purpose, [&] {
    rules_of(settings, formation.machine().hosts);  // throws before anything is made
    own = formation.open();
    own.shares_buffers = engine.expects_shared_buffers() ? 1 : 0;
  });
  const auto announcements = announcements_of(members, own, agreeing);
  together(exchange, engine.rank(), purpose, [&] {
    if (members.empty()) return;
    const Progress::Forming told{*engine.progress(), formation.world_ranks()};
    const Settings& times = engine.settings();
    formation.connect(announcements, Deadline::in(std::min(times.timeout, times.join_timeout)));
  });
  if (members.empty()) return std::nullopt;
  return formation.start(announcements, settings);
}

/// The settings in which a twin differs from its parent. Of longer rules their beginning counts.
struct TwinSettings {
  std::uint32_t length = 0;
  Reproducible promise = Reproducible::run;
  char rules[251]{};

  explicit TwinSettings(const Settings& settings)
      : length(static_cast<std::uint32_t>(settings.algorithm.size())),
        promise(settings.reproducible) {
    settings.algorithm.copy(rules, sizeof rules - 1);
  }
  TwinSettings() = default;
  bool operator==(const TwinSettings&) const = default;
};

/// Throws Mismatch on all ranks where they differ: each would run calls in its own way.
void agree_on_twin(const Engine& engine, Exchange& exchange, const TwinSettings& own) {
  const auto all = gather_answers(exchange, own, "settings", Purpose::twin);
  for (const Rank rank : all_ranks(all.size()))
    if (const TwinSettings& theirs = all[rank]; !(theirs == own))
      throw Mismatch(fmt::format(
          "rank {} asks for rules '{}' and sums of {}, and rank {} for '{}' and {}: pass "
          "the same to with_algorithm and with_reproducible on all ranks",
          engine.rank(), own.rules, name_of(own.promise), rank.value(), theirs.rules,
          name_of(theirs.promise)));
}

}  // namespace

std::optional<Member> make_group(Member& parent, const std::vector<Rank>& members,
                                 Purpose purpose) {
  CollectiveExchange exchange{*parent.engine};
  return make_group(parent, members, parent.engine->settings(), {exchange, false, purpose});
}

Member make_group_of_members(Member& parent, const std::vector<Rank>& members, int tag) {
  MemberExchange exchange{*parent.engine, members, tag};
  return *make_group(parent, members, parent.engine->settings(),
                     {exchange, true, Purpose::subgroup});
}

Member make_twin(Member& parent, const Settings& settings) {
  std::vector<Rank> all;
  for (const Rank rank : all_ranks(parent.engine->size())) all.push_back(rank);
  CollectiveExchange exchange{*parent.engine};
  agree_on_twin(*parent.engine, exchange, TwinSettings{settings});
  return *make_group(parent, all, settings, {exchange, false, Purpose::twin});
}

}  // namespace capstan
