// SPDX-License-Identifier: Apache-2.0
#include "core/engine/world/formation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "capstan/error.hpp"
#include "core/engine/run/progress.hpp"
#include "core/engine/world/make_transport.hpp"
#include "core/platform/net/foreign.hpp"

namespace capstan {

/// The transports of a group of threads, which its first member makes for all. Member r takes
/// entry r.
struct Handoff {
  std::vector<std::unique_ptr<Transport>> transports;
};

namespace {

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

Announcement announce(std::span<const std::byte> address) {
  Announcement own{.length = static_cast<std::uint32_t>(address.size())};
  if (address.size() > sizeof own.address)
    throw BootstrapError(fmt::format("a transport's address of {} bytes is longer than {}",
                                     address.size(), sizeof own.address));
  std::ranges::copy(address, own.address);
  return own;
}

}  // namespace

Formation::Formation(Engine& parent, const std::vector<Rank>& members)
    : parent_(parent),
      members_(members),
      position_(
          static_cast<int>(std::ranges::find(members, Rank{parent.rank()}) - members.begin())),
      threads_(parent.machine().threads),
      layout_(segment_layout(hosts(), parent.machine(), parent.settings())) {}

Announcement Formation::open() {
  if (members_.empty()) return {};
  if (!threads_) {
    transport_ =
        make_transport(Rank{position_}, hosts(), {parent_.machine().network, parent_.machine().key},
                       layout_.total(), parent_.settings());
    return announce(transport_->address());
  }
  if (position_ > 0) return {};
  handoff_ = std::make_shared<Handoff>(
      make_transports_of_threads(hosts(), layout_.total(), parent_.settings()));
  const std::uint64_t number = Handoffs::of_process().add(handoff_);
  return announce(std::as_bytes(std::span{&number, 1}));
}

void Formation::connect(const std::vector<Announcement>& announcements, Deadline deadline) {
  std::vector<Address> addresses;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Announcement& theirs = announcements[i];
    Foreign{Rank{parent_.rank()}, members_[i]}.at_most("the length of its address", theirs.length,
                                                       sizeof theirs.address);
    addresses.emplace_back(theirs.address, theirs.address + theirs.length);
  }
  if (threads_) return take(addresses.front());
  transport_->connect(addresses, deadline);
}

Member Formation::start(const std::vector<Announcement>& announcements, const Settings& settings) {
  ByRank<int> ranks;
  for (const Rank member : world_ranks()) ranks.push_back(member.value());
  MachineView view = machine();
  view.autotunes = view.autotunes && settings.algorithm.empty();
  auto group = std::make_unique<Engine>(parent_.shared(), std::move(transport_), std::move(ranks),
                                        Rank{position_}, layout_, view, settings);
  if (std::ranges::any_of(announcements,
                          [](const Announcement& theirs) { return theirs.shares_buffers != 0; }))
    group->expect_shared_buffers();
  return Member{std::move(group)};
}

MachineView Formation::machine() const {
  MachineView machine = parent_.machine();
  machine.hosts = hosts();
  return machine;
}

std::vector<Rank> Formation::world_ranks() const {
  std::vector<Rank> ranks;
  for (const Rank member : members_) ranks.emplace_back(parent_.world_ranks()[member]);
  return ranks;
}

Hosts Formation::hosts() const {
  std::vector<int> hosts;
  for (const Rank member : members_) hosts.push_back(parent_.machine().hosts.host_of(member));
  return Hosts{std::move(hosts)};
}

void Formation::take(const Address& address) {
  std::uint64_t number = 0;
  std::memcpy(&number, address.data(), std::min(address.size(), sizeof number));
  const auto handoff = Handoffs::of_process().find(number);
  if (!handoff) throw BootstrapError("the group's first member has given up");
  transport_ = std::move(handoff->transports[static_cast<std::size_t>(position_)]);
}

}  // namespace capstan
