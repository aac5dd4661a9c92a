// SPDX-License-Identifier: Apache-2.0

// Pieces on rails, and pushes that have to wait for them. The rails of this test deliver on
// request.

#include "transports/compose/multirail/multirail_transport.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <vector>

#include "capstan/error.hpp"
#include "transports/compose/multirail/peer_state.hpp"

namespace capstan {
namespace {

using ::testing::HasSubstr;

/// One rail between two ranks of this thread.
class HandRail final : public Transport {
 public:
  HandRail(Rank self, Bytes segment, const Borrowed& memory)
      : self_(self), segment_(segment), memory_(memory) {}

  std::string_view name() const override { return "hand"; }
  Address address() const override { return {std::byte{1}}; }
  void connect(std::span<const Address> addresses, Deadline) override {
    EXPECT_EQ(addresses[peer()].size(), 1u);
    link_ = {.segment = memory_.mirrors[peer()], .doorbell = &always_};
  }
  std::span<std::byte> segment() override { return {memory_.segment, segment_.value()}; }
  const Link& link(Rank) const override { return link_; }
  void push(Rank peer, Bytes offset, Bytes length) override {
    push_from(peer, offset, memory_.segment + offset.value(), length);
  }
  void push_from(Rank, Bytes offset, const void* from, Bytes length) override {
    EXPECT_LE(offset.value() + length.value(), segment_.value());
    auto* bytes = static_cast<const std::byte*>(from);
    kept_.push_back({offset.value(), {bytes, bytes + length.value()}});
  }
  void progress() override {}
  void prepare_to_sleep() override {}
  void sleep(std::chrono::nanoseconds) override {}
  void cancel_sleep() override {}
  bool pushed(Rank) const override { return sent_.empty(); }
  std::optional<std::string> departed(Rank) override { return gone; }

  /// Delivers to the other end what has been sent. Returns the number of ranges.
  std::size_t deliver_to(HandRail& other) {
    const std::size_t count = sent_.size();
    for (; !sent_.empty(); sent_.pop_front())
      std::memcpy(other.memory_.mirrors[other.peer()] + sent_.front().offset,
                  sent_.front().bytes.data(), sent_.front().bytes.size());
    return count;
  }
  std::size_t waiting() const { return sent_.size(); }

  std::optional<std::string> gone;

 private:
  struct Sent {
    std::uint64_t offset;
    std::vector<std::byte> bytes;
  };

  void ring(const Link&) override {
    for (; !kept_.empty(); kept_.pop_front()) sent_.push_back(std::move(kept_.front()));
  }
  std::size_t peer() const { return self_.value() == 0 ? 1 : 0; }

  const Rank self_;
  const Bytes segment_;
  const Borrowed memory_;
  Link link_;
  std::atomic<std::uint32_t> always_{1};
  std::deque<Sent> kept_, sent_;
};

constexpr Rank zero{0}, one{1};
constexpr Bytes long_range{256 * 1024}, flag_at{300 * 1024};

/// Two ranks with two rails.
class Rails : public ::testing::Test {
 protected:
  struct Side {
    std::vector<HandRail*> rails;
    std::unique_ptr<Transport> transport;
  };

  Rails() {
    for (int rank = 0; rank < 2; ++rank) {
      Side& side = sides_[rank];
      const auto make = [&](int, Bytes segment, const Borrowed& memory) {
        auto rail = std::make_unique<HandRail>(Rank{rank}, segment, memory);
        side.rails.push_back(rail.get());
        return rail;
      };
      side.transport = make_multirail_transport(Rank{rank}, 2, Bytes{512 * 1024}, 2, make);
    }
    const std::vector<Address> addresses{sides_[0].transport->address(),
                                         sides_[1].transport->address()};
    for (Side& side : sides_) side.transport->connect(addresses, Deadline::never());
  }
  ~Rails() override {
    for (Side& side : sides_) side.rails[0]->gone = "the test is over";
  }

  Transport& sender() { return *sides_[0].transport; }
  Transport& receiver() { return *sides_[1].transport; }
  std::size_t deliver(int rail) {
    return sides_[0].rails[static_cast<std::size_t>(rail)]->deliver_to(
        *sides_[1].rails[static_cast<std::size_t>(rail)]);
  }
  /// The receiver makes progress, and its acknowledgement reaches the sender.
  void acknowledge() {
    receiver().progress();
    sides_[1].rails[0]->deliver_to(*sides_[0].rails[0]);
    sender().progress();
  }
  void send_long() {
    std::memset(sender().segment().data(), 7, long_range.value());
    sender().push(one, Bytes{0}, long_range);
    sender().wake(sender().link(one));
  }
  void send_flag(std::byte value) {
    sender().segment()[flag_at.value()] = value;
    sender().push(one, flag_at, Bytes{1});
    sender().wake(sender().link(one));
  }
  std::byte seen(Bytes offset) { return receiver().link(zero).segment[offset.value()]; }

  Side sides_[2];
};

TEST_F(Rails, ShortRangesTakeTheFirst) {
  send_flag(std::byte{1});
  EXPECT_EQ(deliver(1), 0u);
  EXPECT_EQ(deliver(0), 1u);
  EXPECT_EQ(seen(flag_at), std::byte{1});
}

TEST_F(Rails, AFlagWaitsForAllPieces) {
  send_long();
  send_flag(std::byte{1});
  EXPECT_FALSE(sender().pushed(one));
  deliver(0);
  acknowledge();
  deliver(0);
  EXPECT_EQ(seen(Bytes{0}), std::byte{7});
  EXPECT_EQ(seen(long_range - Bytes{1}), std::byte{0});
  EXPECT_EQ(seen(flag_at), std::byte{0}) << "half of what was pushed before it is missing";
  deliver(1);
  acknowledge();
  EXPECT_EQ(seen(long_range - Bytes{1}), std::byte{7});
  EXPECT_EQ(deliver(0), 1u);
  EXPECT_EQ(seen(flag_at), std::byte{1});
  EXPECT_TRUE(sender().pushed(one));
}

TEST_F(Rails, PiecesGoOnWhileOthersWait) {
  send_long();
  send_flag(std::byte{1});
  send_long();
  EXPECT_EQ(deliver(1), 4u) << "two pieces, each with its count";
  acknowledge();
  EXPECT_EQ(seen(flag_at), std::byte{0});
  deliver(0);
  acknowledge();
  deliver(0);
  EXPECT_EQ(seen(flag_at), std::byte{1});
}

TEST_F(Rails, WhatWaitsKeepsItsOrderAndItsBytes) {
  send_long();
  send_flag(std::byte{1});
  send_flag(std::byte{2});
  std::vector<std::byte> elsewhere(1000, std::byte{3});
  sender().push_from(one, flag_at, elsewhere.data(), Bytes{elsewhere.size()});
  sender().wake(sender().link(one));
  for (HandRail* rail : sides_[0].rails)
    rail->deliver_to(*sides_[1].rails[rail == sides_[0].rails[1]]);
  sender().detach_sources(one);
  std::ranges::fill(elsewhere, std::byte{9});
  EXPECT_FALSE(sender().pushed(one)) << "it has to go on when the pieces have come";
  acknowledge();
  EXPECT_EQ(sides_[0].rails[0]->waiting(), 3u);
  deliver(0);
  EXPECT_EQ(seen(flag_at), std::byte{3});
  EXPECT_EQ(seen(flag_at + Bytes{999}), std::byte{3});
}

TEST_F(Rails, TheEndOfAnyRailIsTheEndOfThePeer) {
  EXPECT_EQ(sender().departed(one), std::nullopt);
  sides_[0].rails[1]->gone = "rail 1 is cut";
  EXPECT_EQ(sender().departed(one), "rail 1 is cut");
}

TEST(MultirailPieces, CoverARangeOnce) {
  for (const std::uint64_t offset : {0ull, 8ull, 4096ull, 70000ull}) {
    for (const int rails : {1, 2, 3, 8}) {
      const multirail::PushedRange whole{Bytes{offset}, Bytes{700001}};
      std::uint64_t next = offset;
      for (int rail = 0; rail < rails; ++rail) {
        const multirail::PushedRange piece = whole.piece(rail, rails);
        EXPECT_EQ(piece.offset.value(), next);
        EXPECT_GT(piece.length.value(), 700001u / 8 - 4096);
        next += piece.length.value();
      }
      EXPECT_EQ(next, offset + 700001) << rails << " rails from " << offset;
    }
  }
}

TEST(RailsRefuse, AnImpossibleNumberAndAddressesOfAnother) {
  const auto make = [](int, Bytes segment, const Borrowed& memory) {
    return std::make_unique<HandRail>(zero, segment, memory);
  };
  EXPECT_THROW(make_multirail_transport(zero, 2, Bytes{64}, 0, make), InvalidArgument);
  EXPECT_THROW(make_multirail_transport(zero, 2, Bytes{64}, 9, make), InvalidArgument);
  const auto two = make_multirail_transport(zero, 2, Bytes{64}, 2, make);
  const auto three = make_multirail_transport(zero, 2, Bytes{64}, 3, make);
  try {
    two->connect(std::vector{two->address(), three->address()}, Deadline::never());
    FAIL() << "ranks with different numbers of rails have met";
  } catch (const BootstrapError& error) {
    EXPECT_THAT(error.what(), HasSubstr("rank 1 cannot be met"));
  }
}

}  // namespace
}  // namespace capstan
