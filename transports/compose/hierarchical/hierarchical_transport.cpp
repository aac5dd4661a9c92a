// SPDX-License-Identifier: Apache-2.0
#include "transports/compose/hierarchical/hierarchical_transport.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "capstan/error.hpp"
#include "core/platform/net/wait_readable.hpp"
#include "transports/common/joined_address.hpp"
#include "transports/common/requirements.hpp"

namespace capstan {
namespace {

class HierarchicalTransport final : public Transport {
 public:
  HierarchicalTransport(Rank self, const Hosts& hosts, std::unique_ptr<Transport> near,
                        std::unique_ptr<Transport> far)
      : self_(self), near_(std::move(near)), far_(std::move(far)) {
    const auto neighbours = hosts.on(hosts.host_of(self));
    near_rank_.assign(static_cast<std::size_t>(hosts.ranks()), -1);
    for (std::size_t i = 0; i < neighbours.size(); ++i)
      near_rank_[static_cast<std::size_t>(neighbours[i].value())] = static_cast<std::int32_t>(i);
    name_ = fmt::format("{}+{}", near_->name(), far_->name());
  }

  std::string_view name() const override { return name_; }
  Address address() const override { return join_addresses({near_->address(), far_->address()}); }

  void connect(std::span<const Address> addresses, Deadline deadline) override {
    std::vector<Address> near, far;
    for (std::size_t rank = 0; rank < addresses.size(); ++rank) {
      std::vector<Address> both = split_addresses(addresses[rank], 2);
      if (both.empty())
        throw BootstrapError(fmt::format("the address of rank {} makes no sense", rank));
      const bool is_near = near_rank_.at(rank) >= 0;
      if (is_near) near.push_back(std::move(both.front()));
      far.push_back(is_near ? Address{} : std::move(both.back()));
    }
    near_->connect(near, deadline);
    far_->connect(far, deadline);
  }

  std::span<std::byte> segment() override { return near_->segment(); }
  const Link& link(Rank peer) const override {
    return is_near(peer) ? near_->link(near_rank(peer)) : far_->link(peer);
  }

  void push(Rank peer, Bytes offset, Bytes length) override {
    if (!is_near(peer)) far_->push(peer, offset, length);
  }
  void push_from(Rank peer, Bytes offset, const void* from, Bytes length) override {
    if (!is_near(peer)) far_->push_from(peer, offset, from, length);
  }
  void announce_sources(std::span<const std::byte> input,
                        std::span<const std::byte> output) override {
    far_->announce_sources(input, output);
  }
  bool pushed(Rank peer) const override { return is_near(peer) || far_->pushed(peer); }
  void detach_sources(Rank peer) override {
    if (!is_near(peer)) far_->detach_sources(peer);
  }

  bool read_remote(Rank peer, std::uint64_t address, void* to, Bytes size) override {
    return is_near(peer) && near_->read_remote(near_rank(peer), address, to, size);
  }
  bool write_remote(Rank peer, std::uint64_t address, const void* from, Bytes size) override {
    return is_near(peer) && near_->write_remote(near_rank(peer), address, from, size);
  }
  std::unique_ptr<ExposedMemory> expose(Rank peer, const void* data, Bytes size,
                                        MemoryKind kind) override {
    return is_near(peer) ? nullptr : far_->expose(peer, data, size, kind);
  }
  bool reaches_devices() override { return far_->reaches_devices(); }
  std::shared_ptr<RemoteRead> start_read(Rank peer, std::uint64_t address, std::uint64_t key,
                                         void* to, Bytes size, MemoryKind kind) override {
    return is_near(peer) ? nullptr : far_->start_read(peer, address, key, to, size, kind);
  }
  void end_reads(Rank peer) override {
    if (!is_near(peer)) far_->end_reads(peer);
  }
  bool shares_addresses() const override { return near_->shares_addresses(); }
  void end_soon() override {
    near_->end_soon();
    far_->end_soon();
  }

  void progress() override {
    near_->progress();
    far_->progress();
  }

  void prepare_to_sleep() override {
    near_->prepare_to_sleep();
    far_->prepare_to_sleep();
  }
  void sleep(std::chrono::nanoseconds at_most) override {
    constexpr std::chrono::milliseconds longest_blind{1};
    const int near = near_->descriptor(), far = far_->descriptor();
    if (near < 0 || far < 0) at_most = std::min<std::chrono::nanoseconds>(at_most, longest_blind);
    wait_readable({near, far}, at_most);
    cancel_sleep();
  }
  void cancel_sleep() override {
    near_->cancel_sleep();
    far_->cancel_sleep();
  }

  bool watch(Rank peer) override {
    return is_near(peer) ? near_->watch(near_rank(peer)) : far_->watch(peer);
  }
  std::optional<std::string> departed(Rank peer) override {
    return is_near(peer) ? near_->departed(near_rank(peer)) : far_->departed(peer);
  }

 private:
  /// Throws InvalidArgument for a rank that does not exist.
  bool is_near(Rank peer) const {
    return near_rank_[require_rank(self_, peer, near_rank_.size())] >= 0;
  }
  Rank near_rank(Rank peer) const {
    return Rank{near_rank_[static_cast<std::size_t>(peer.value())]};
  }

  void ring(const Link& link) override { (link.mapped ? near_ : far_)->wake(link); }

  const Rank self_;
  const std::unique_ptr<Transport> near_,
      far_;                              // far is destroyed first, as it uses near's segment
  std::vector<std::int32_t> near_rank_;  // by rank; -1: far
  std::string name_;
};

}  // namespace

std::unique_ptr<Transport> make_hierarchical_transport(Rank self, const Hosts& hosts,
                                                       std::unique_ptr<Transport> near,
                                                       std::unique_ptr<Transport> far) {
  return std::make_unique<HierarchicalTransport>(self, hosts, std::move(near), std::move(far));
}

}  // namespace capstan
