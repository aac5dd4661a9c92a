// SPDX-License-Identifier: Apache-2.0

// Groups: communicators of some ranks of a parent communicator. Collectives of the parent form
// them, or messages between the members.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>

#include "capstan/custom_algorithm.hpp"
#include "capstan/error.hpp"
#include "core/engine/run/progress.hpp"
#include "core/engine/world/make_transport.hpp"
#include "core/engine/world/member_exchange.hpp"
#include "core/engine/world/world.hpp"
#include "core/platform/net/foreign.hpp"
#include "core/platform/net/limits.hpp"

namespace capstan {
namespace {

/// A rank's answer while groups are formed: the address of its transport or, for threads, the
/// number of their handoff.
struct Announcement {
  std::uint32_t length = 0;
  std::uint32_t shares_buffers = 0;  ///< see Engine::expects_shared_buffers()
  std::byte address[1016]{};
};

/// The transports of a group of threads, which its first member makes for all. Member r takes
/// entry r.
struct Handoff {
  std::vector<std::unique_ptr<Transport>> transports;
};

/// Handoffs by number. The first member of a group owns its handoff and others find it here, so
/// that nothing is left behind when a member fails before it has taken its transport. One list for
/// the process. Thread-safe.
class Handoffs {
 public:
  static Handoffs& of_process() {
    static auto& all = *new Handoffs;
    return all;
  }

  std::uint64_t add(const std::shared_ptr<Handoff>& handoff) {
    const std::lock_guard lock{mutex_};
    std::erase_if(handoffs_, [](const auto& entry) { return entry.second.expired(); });
    handoffs_[++last_] = handoff;
    return last_;
  }
  /// Null when its owner has failed.
  std::shared_ptr<Handoff> find(std::uint64_t number) {
    const std::lock_guard lock{mutex_};
    const auto found = handoffs_.find(number);
    return found == handoffs_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::weak_ptr<Handoff>> handoffs_;
};

/// This rank's side of a group that is being formed.
class Formation {
 public:
  Formation(Engine& parent, const std::vector<Rank>& members)
      : parent_(parent),
        members_(members),
        position_(
            static_cast<int>(std::ranges::find(members, Rank{parent.rank()}) - members.begin())),
        threads_(parent.machine().threads),
        layout_(segment_layout(static_cast<int>(members.size()), parent.machine(),
                               parent.settings())) {}

  /// Makes the transport of this rank. The first of several threads makes those of all members.
  Announcement open() {
    if (members_.empty()) return {};
    if (!threads_) {
      transport_ = make_transport(Rank{position_}, hosts(),
                                  {parent_.machine().network, parent_.machine().key},
                                  layout_.total(), parent_.settings());
      return announce(transport_->address());
    }
    if (position_ > 0) return {};
    handoff_ = std::make_shared<Handoff>(
        make_transports_of_threads(hosts(), layout_.total(), parent_.settings()));
    const std::uint64_t number = Handoffs::of_process().add(handoff_);
    return announce(std::as_bytes(std::span{&number, 1}));
  }

  /// `announcements` of the members, in their order.
  void connect(const std::vector<Announcement>& announcements) {
    std::vector<Address> addresses;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const Announcement& theirs = announcements[i];
      Foreign{Rank{parent_.rank()}, members_[i]}.at_most("the length of its address", theirs.length,
                                                         sizeof theirs.address);
      addresses.emplace_back(theirs.address, theirs.address + theirs.length);
    }
    if (threads_) return take(addresses.front());
    // A rank that does not come must not be waited for longer than by those that are here already.
    const Settings& settings = parent_.settings();
    transport_->connect(addresses, Deadline::in(std::min(settings.timeout, settings.join_timeout)));
  }

  std::shared_ptr<Transport> transport() { return std::move(transport_); }
  const SegmentLayout& layout() const { return layout_; }
  int position() const { return position_; }
  MachineView machine() const {
    MachineView machine = parent_.machine();
    machine.hosts = hosts();
    return machine;
  }

 private:
  Hosts hosts() const {
    std::vector<int> hosts;
    for (const Rank member : members_) hosts.push_back(parent_.machine().hosts.host_of(member));
    return Hosts{std::move(hosts)};
  }

  static Announcement announce(std::span<const std::byte> address) {
    Announcement own{.length = static_cast<std::uint32_t>(address.size())};
    if (address.size() > sizeof own.address)
      throw BootstrapError(fmt::format("a transport's address of {} bytes is longer than {}",
                                       address.size(), sizeof own.address));
    std::ranges::copy(address, own.address);
    return own;
  }

  void take(const Address& address) {
    std::uint64_t number = 0;
    std::memcpy(&number, address.data(), std::min(address.size(), sizeof number));
    const auto handoff = Handoffs::of_process().find(number);
    if (!handoff) throw BootstrapError("the group's first member has given up");
    transport_ = std::move(handoff->transports[static_cast<std::size_t>(position_)]);
  }

  Engine& parent_;
  const std::vector<Rank>& members_;
  const int position_;
  const bool threads_;
  const SegmentLayout layout_;
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<Handoff> handoff_;  // null except in the first of several threads
};

std::vector<Rank> world_ranks_of(const Engine& engine, const std::vector<Rank>& members) {
  std::vector<Rank> ranks;
  for (const Rank member : members) ranks.emplace_back(engine.world_ranks()[member]);
  return ranks;
}

/// Takes a step, and throws on every rank unless all ranks could take it.
template <class Step>
void together(Exchange& exchange, int rank, Purpose purpose, Step step) {
  std::string trouble;
  std::exception_ptr refused;  // an algorithm, alike on all ranks unless they have added others
  try {
    step();
  } catch (const AlgorithmRefused& error) {
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
    const Progress::Forming told{*engine.progress(), world_ranks_of(engine, members)};
    formation.connect(announcements);
  });
  if (members.empty()) return std::nullopt;

  ByRank<int> world_ranks;
  for (const Rank member : world_ranks_of(engine, members)) world_ranks.push_back(member.value());
  MachineView machine = formation.machine();
  machine.autotunes = machine.autotunes && settings.algorithm.empty();
  auto group =
      std::make_unique<Engine>(engine.shared(), formation.transport(), std::move(world_ranks),
                               Rank{formation.position()}, formation.layout(), machine, settings);
  if (std::ranges::any_of(announcements,
                          [](const Announcement& theirs) { return theirs.shares_buffers != 0; }))
    group->expect_shared_buffers();
  return Member{std::move(group)};
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
