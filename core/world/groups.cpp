// Groups: communicators of some ranks of another, which have nothing but that one to form it with.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "capstan/error.hpp"
#include "core/world/make_transport.hpp"
#include "core/world/world.hpp"

namespace capstan {
namespace {

/// What ranks tell each other while they form groups: an address, or where one is to be fetched.
struct Card {
  std::uint32_t length = 0;
  std::byte address[1020]{};
};

/// Threads of one process hand their transports to each other.
struct Handoff {
  std::vector<std::unique_ptr<Transport>> transports;
  std::atomic<std::size_t> left;
};

/// This rank's side of a group that is being formed.
class Formation {
 public:
  Formation(Engine& parent, const std::vector<int>& members)
      : parent_(parent),
        members_(members),
        position_(static_cast<int>(std::ranges::find(members, parent.rank()) - members.begin())),
        threads_(parent.is_of_threads()),
        layout_(segment_layout(static_cast<int>(members.size()), parent.placement(),
                               parent.settings())) {}

  /// Makes a transport, or with threads all of them, and tells of it.
  Card open() {
    if (members_.empty()) return {};
    if (!threads_) {
      transport_ = make_transport(Rank{position_}, hosts(), parent_.placement().network,
                                  layout_.total(), parent_.settings());
      return card_of(transport_->address());
    }
    if (position_ > 0) return {};
    auto* handoff = new Handoff{
        make_transports_of_threads(hosts(), layout_.total(), parent_.settings()), members_.size()};
    return card_of(std::as_bytes(std::span{&handoff, 1}));
  }

  void connect(const std::vector<Card>& cards) {
    if (members_.empty()) return;
    std::vector<Address> addresses;
    for (const int member : members_) {
      const Card& card = cards[static_cast<std::size_t>(member)];
      addresses.emplace_back(card.address, card.address + card.length);
    }
    if (threads_) return take(addresses.front());
    transport_->connect(addresses, Deadline::in(parent_.settings().join_timeout));
  }

  std::shared_ptr<Transport> transport() { return std::move(transport_); }
  const SegmentLayout& layout() const { return layout_; }
  int position() const { return position_; }
  Placement placement() const {
    Placement placement = parent_.placement();
    placement.hosts = hosts();
    return placement;
  }

 private:
  int size() const { return static_cast<int>(members_.size()); }

  Hosts hosts() const {
    std::vector<int> hosts;
    for (const int member : members_)
      hosts.push_back(parent_.placement().hosts.host_of(Rank{member}));
    return Hosts{std::move(hosts)};
  }

  static Card card_of(std::span<const std::byte> address) {
    Card card{.length = static_cast<std::uint32_t>(address.size())};
    if (address.size() > sizeof card.address)
      throw BootstrapError(fmt::format("a transport's address of {} bytes is longer than {}",
                                       address.size(), sizeof card.address));
    std::ranges::copy(address, card.address);
    return card;
  }

  void take(const Address& address) {
    Handoff* handoff = nullptr;
    std::memcpy(&handoff, address.data(), sizeof handoff);
    transport_ = std::move(handoff->transports[static_cast<std::size_t>(position_)]);
    if (handoff->left.fetch_sub(1) == 1) delete handoff;
  }

  Engine& parent_;
  const std::vector<int>& members_;
  const int position_;
  const bool threads_;
  const SegmentLayout layout_;
  std::unique_ptr<Transport> transport_;
};

Call group_call(Collective collective, DataType type, ReduceOp op, std::size_t count) {
  return {.collective = collective, .type = type, .op = op, .shape = {.count = Elements{count}}};
}

/// What keeps this rank from going on, if anything; no rank goes on unless all can.
template <class Step>
void together(Engine& parent, Step step) {
  std::string trouble;
  try {
    step();
  } catch (const Error& error) {
    trouble = error.what();
  }
  std::int32_t fine = trouble.empty() ? 1 : 0;
  parent.run(group_call(Collective::all_reduce, DataType::i32, ReduceOp::min, 1), &fine, &fine);
  if (!trouble.empty())
    throw BootstrapError(fmt::format("rank {} could not form a group: {}", parent.rank(), trouble));
  if (fine == 0)
    throw BootstrapError(fmt::format(
        "rank {} could not form a group: another rank failed, see its error", parent.rank()));
}

}  // namespace

std::optional<Member> make_group(Member& parent, const std::vector<int>& members) {
  Engine& engine = *parent.engine;
  Formation formation{engine, members};
  Card own;
  std::vector<Card> cards(static_cast<std::size_t>(engine.size()));
  together(engine, [&] { own = formation.open(); });
  engine.run(group_call(Collective::all_gather, DataType::u8, ReduceOp::sum, sizeof(Card)), &own,
             cards.data());
  together(engine, [&] { formation.connect(cards); });
  if (members.empty()) return std::nullopt;

  std::vector<int> world_ranks;
  for (const int member : members)
    world_ranks.push_back(engine.world_ranks()[static_cast<std::size_t>(member)]);
  auto group = std::make_unique<Engine>(
      engine.shared(), formation.transport(), std::move(world_ranks), Rank{formation.position()},
      formation.layout(), formation.placement(), engine.settings());
  if (engine.expects_shared_buffers()) group->expect_shared_buffers();
  return Member{std::move(group)};
}

}  // namespace capstan
