// SPDX-License-Identifier: Apache-2.0

// Failures as peers see them, and when.

#include "core/engine/control/failure.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "core/engine/control/peers.hpp"

namespace capstan {
namespace {

/// Carries pushes from rank 0 to rank 1 word by word, forwards or backwards: a transport promises
/// whole words, and order between pushes, and no more.
class WordwiseTransport final : public Transport {
 public:
  enum class Order { forwards, backwards };

  explicit WordwiseTransport(Order order) : order_(order) {
    new (own_) Control{};
    new (mirror_) Control{};
  }

  const Control& mirror() const { return control_of(static_cast<const std::byte*>(mirror_)); }
  /// Each failure that the peer could have read on the way.
  const std::vector<Failure>& seen() const { return seen_; }

  std::string_view name() const override { return "wordwise"; }
  Address address() const override { return {}; }
  void connect(std::span<const Address>, Deadline) override {}
  std::span<std::byte> segment() override { return own_; }
  const Link& link(Rank) const override { return link_; }
  void push(Rank, Bytes offset, Bytes length) override {
    constexpr std::uint64_t word = 8;
    for (std::uint64_t i = 0; i < length.value(); i += word) {
      const auto before = order_ == Order::forwards ? i : (length.value() - 1 - i) / word * word;
      const auto at = offset.value() + before;
      std::memcpy(mirror_ + at, own_ + at, std::min(word, length.value() - before));
      if (const auto failure = read(mirror().abort, 8)) seen_.push_back(*failure);
    }
  }
  void progress() override {}
  void prepare_to_sleep() override {}
  void sleep(std::chrono::nanoseconds) override {}
  void cancel_sleep() override {}
  std::optional<std::string> departed(Rank) override { return std::nullopt; }

 protected:
  void ring(const Link&) override {}

 private:
  const Order order_;
  alignas(Control) std::byte own_[sizeof(Control)];
  alignas(Control) std::byte mirror_[sizeof(Control)];
  Link link_{.segment = mirror_};
  std::vector<Failure> seen_;
};

TEST(FailureOfAPeer, IsSafeOnATerminal) {
  AbortRecord record{};
  publish(record, {Failure::Kind::aborted, Rank{0},
                   "a\x1b[2Jb\r\xff"
                   "c\nsecond line \xc3\xa9"});
  EXPECT_STREQ(Aborted(read(record, 1)->text).what(),
               "a\\x1b[2Jb\\x0d\\xffc\nsecond line \xc3\xa9");
}

class FailureOverANetwork : public ::testing::TestWithParam<WordwiseTransport::Order> {};

TEST_P(FailureOverANetwork, IsSeenWholeOrNotAtAll) {
  WordwiseTransport transport{GetParam()};
  const shared::SharedMemory memory{Bytes{1 << 20}};
  Peers peers{transport, transport, memory, {0, 1}, Rank{0}};
  const Failure failure{Failure::Kind::peer_lost, Rank{7}, std::string(900, 'x')};
  publish(peers.own_control().abort, failure);
  peers.show_end();
  ASSERT_FALSE(transport.seen().empty());
  for (const Failure& seen : transport.seen()) {
    EXPECT_EQ(seen.kind, failure.kind);
    EXPECT_EQ(seen.lost, failure.lost);
    ASSERT_EQ(seen.text, failure.text);
  }
}

INSTANTIATE_TEST_SUITE_P(Bytes, FailureOverANetwork,
                         ::testing::Values(WordwiseTransport::Order::forwards,
                                           WordwiseTransport::Order::backwards));

}  // namespace
}  // namespace capstan
