// SPDX-License-Identifier: Apache-2.0

// Connections whose data are authenticated or encrypted, and somebody between the two ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <random>

#include "core/platform/net/sealed.hpp"
#include "tests/conformance/captured_output.hpp"
#include "tests/conformance/tcp_pair.hpp"
#include "tests/relay.hpp"
#include "transports/tcp/record.hpp"

namespace capstan::conformance {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;
using Mode = RecordSeal::Mode;
using Tag = std::array<std::byte, RecordSeal::tag_bytes>;

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span{text.data(), text.size()});
  return {bytes.begin(), bytes.end()};
}

// --- Seals ---

class Seals : public testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, Seals, testing::Values(Mode::authenticated, Mode::encrypted),
                         [](const auto& test) {
                           return test.param == Mode::encrypted ? "Encrypted" : "Authenticated";
                         });

TEST_P(Seals, OpenTheNextRecordOfTheOtherEndOnly) {
  const Secret key = Secret::random();
  for (const std::size_t size : {0u, 1u, 63u, 64u, 65u, 70'000u}) {
    RecordSeal out{key, GetParam()}, in{key, GetParam()};
    std::vector<std::byte> plain(size, std::byte{7});
    std::array<std::vector<std::byte>, 3> records{plain, plain, plain};
    std::array<Tag, 3> tags;
    for (std::size_t i = 0; i < 3; ++i) out.seal(records[i], tags[i]);
    if (size != 1) {  // one byte in 256 is encrypted to itself
      EXPECT_EQ(records[0] == plain, GetParam() == Mode::authenticated || size == 0);
    }
    auto first = records[0];
    ASSERT_TRUE(in.open(first, tags[0]));
    EXPECT_EQ(first, plain);
    RecordSeal repeated = in, skipped = in, changed = in, other{Secret::random(), GetParam()};
    EXPECT_FALSE(repeated.open(records[0], tags[0])) << "the first again";
    EXPECT_FALSE(skipped.open(records[2], tags[2])) << "not the next";
    EXPECT_FALSE(other.open(records[0], tags[0])) << "of another key";
    Tag bad = tags[1];
    bad[3] ^= std::byte{1};
    auto kept = records[1];  // what cannot be opened is wiped
    EXPECT_FALSE(changed.open(kept, bad));
    for (const std::size_t at : {std::size_t{0}, size / 2, size - 1}) {
      if (size == 0) break;
      auto record = records[1];
      record[at] ^= std::byte{1};
      RecordSeal fresh = in;
      EXPECT_FALSE(fresh.open(record, tags[1])) << at;
    }
    EXPECT_TRUE(in.open(records[1], tags[1]));
  }
}

TEST_P(Seals, ModesDoNotOpenEachOther) {
  const Secret key = Secret::random();
  RecordSeal out{key, GetParam()};
  RecordSeal in{key, GetParam() == Mode::encrypted ? Mode::authenticated : Mode::encrypted};
  auto record = bytes_of("something");
  Tag tag;
  out.seal(record, tag);
  EXPECT_FALSE(in.open(record, tag));
}

TEST(Records, ArriveInPiecesOfAnySize) {
  const Secret key = Secret::random();
  tcp::RecordSender sender{RecordSeal{key, Mode::encrypted}};
  tcp::RecordReceiver receiver{RecordSeal{key, Mode::encrypted}};
  std::mt19937 random{7};
  std::vector<std::byte> sent, received;
  const auto take = [&] {
    while (const auto payload = receiver.next())
      received.insert(received.end(), payload->begin(), payload->end());
  };
  for (int i = 0; i < 300; ++i) {
    std::vector<std::byte> data(1 + random() % (i % 10 == 0 ? tcp::largest_record : 300));
    for (std::byte& b : data) b = static_cast<std::byte>(random());
    sent.insert(sent.end(), data.begin(), data.end());
    const std::size_t cut = random() % data.size();
    const std::array<iovec, 2> ranges{{{data.data(), cut}, {data.data() + cut, data.size() - cut}}};
    ASSERT_TRUE(sender.empty());
    sender.fill(ranges);
    EXPECT_EQ(sender.payload(), data.size());
    while (!sender.empty()) {
      const auto rest = sender.unsent(), space = std::span<const std::byte>{receiver.space()};
      const std::size_t count =
          std::min({rest.size(), space.size(), std::size_t{1} + random() % 40'000});
      std::memcpy(receiver.space().data(), rest.data(), count);
      receiver.commit(count);
      sender.advance(count);
      if (random() % 2) take();
    }
    take();
  }
  EXPECT_EQ(received, sent);
}

TEST(Records, OfImpossibleLengthAreRefused) {
  for (const std::uint32_t length :
       {0u, static_cast<std::uint32_t>(tcp::largest_record + 1), ~0u}) {
    tcp::RecordReceiver receiver{RecordSeal{Secret::random(), Mode::encrypted}};
    std::memcpy(receiver.space().data(), &length, sizeof length);
    receiver.commit(sizeof length);
    EXPECT_THROW(receiver.next(), MalformedMessage) << length;
  }
}

// --- Somebody between two ranks ---

/// Rank 0 reaches rank 1 through a relay.
struct Tapped {
  explicit Tapped(std::optional<Mode> mode, Relay::Change change = {})
      : pair(options(mode)),
        relay(TcpEndpoint{"127.0.0.1", endpoint_of(pair[1]).port}, std::move(change)) {
    std::vector<Address> addresses = pair.addresses();
    pair[1].connect(addresses, Deadline::in(patience));
    tcp::TcpAddress through = decoded_tcp(addresses[1]);
    through.count = 0;
    through.add({.ip = IpAddress::parse("127.0.0.1").value(),
                 .port = std::get<TcpEndpoint>(relay.endpoint()).port});
    addresses[1] = through.encode();
    pair[0].connect(addresses, Deadline::in(patience));
  }
  static TcpOptions options(std::optional<Mode> mode) {
    TcpOptions result = on_loopback();
    result.seal = mode;
    return result;
  }
  /// Rank 0 sends a text, which rank 1 finds in its mirror.
  void send(std::string_view text) {
    pair[0].push_from(Rank{1}, Bytes{64}, text.data(), Bytes{text.size()});
    pair.raise_flag(0, ++flag);
  }
  bool arrived(std::string_view text) {
    return pair.flag_at(1) == flag &&
           std::memcmp(pair[1].link(Rank{0}).segment + 64, text.data(), text.size()) == 0;
  }

  TcpPair pair;
  Relay relay;
  std::uint64_t flag = 0;
};

std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < 40'000; ++i) text += fmt::format("what the ranks say {} ", i);
  return text;
}

TEST(TcpSealed, WhoListensReadsWhatIsNotEncrypted) {
  const std::string text = long_text();
  for (const std::optional<Mode> mode : {std::optional<Mode>{}, std::optional{Mode::authenticated},
                                         std::optional{Mode::encrypted}}) {
    Tapped tapped{mode};
    tapped.send(text);
    tapped.pair.drive_until([&] { return tapped.arrived(text); }, "the text");
    const bool readable = tapped.relay.record().find("what the ranks say 7 ") != std::string::npos;
    EXPECT_EQ(readable, mode != Mode::encrypted);
  }
}

// In plain mode a change arrives: that is what the modes are for.
TEST(TcpSealed, WhatIsChangedOnTheWayEndsTheConnection) {
  CapturedOutput output;
  const std::string text = long_text();
  for (const std::optional<Mode> mode : {std::optional<Mode>{}, std::optional{Mode::authenticated},
                                         std::optional{Mode::encrypted}}) {
    std::atomic<bool> changes = false;
    Tapped tapped{mode, [&](Relay::Way, std::vector<std::byte>& bytes) {
                    if (changes && bytes.size() > 1000) bytes[900] ^= std::byte{1};
                  }};
    tapped.send("short");
    tapped.pair.drive_until([&] { return tapped.arrived("short"); }, "the text");
    changes = true;
    tapped.send(text);
    if (!mode) {
      tapped.pair.drive_until([&] { return tapped.pair.flag_at(1) == tapped.flag; }, "the flag");
      EXPECT_FALSE(tapped.arrived(text));
      continue;
    }
    EXPECT_THAT(tapped.pair.await_departure(1),
                AllOf(HasSubstr("rank 0"), HasSubstr("somebody else has made")));
    EXPECT_EQ(tapped.pair.flag_at(1), tapped.flag - 1) << "nothing of it is seen";
  }
}

TEST(TcpSealed, WhatIsInjectedOrRepeatedEndsTheConnection) {
  CapturedOutput output;
  for (const Mode mode : {Mode::authenticated, Mode::encrypted}) {
    for (const bool repeats : {false, true}) {
      std::atomic<bool> attacks = false;
      Tapped tapped{mode, [&](Relay::Way way, std::vector<std::byte>& bytes) {
                      if (!attacks || way != Relay::forth) return;
                      attacks = false;
                      if (repeats)
                        bytes.insert(bytes.end(), bytes.begin(), bytes.end());
                      else
                        bytes.insert(bytes.begin(), 64, std::byte{1});
                    }};
      tapped.send("first");
      tapped.pair.drive_until([&] { return tapped.arrived("first"); }, "the text");
      attacks = true;
      tapped.send("second");
      EXPECT_THAT(tapped.pair.await_departure(1),
                  AnyOf(HasSubstr("somebody else has made"), HasSubstr("a record of")));
      EXPECT_THAT(output.text(), HasSubstr("rank 1: refused a connection with"));
    }
  }
}

TEST(TcpSealed, RanksThatSealOtherwiseDoNotConnect) {
  CapturedOutput output;
  TcpOptions own = on_loopback(), other = on_loopback();
  own.seal = Mode::encrypted;
  other.seal = Mode::authenticated;
  const auto a = make_tcp_transport(Rank{0}, 2, pair_segment, own);
  const auto b = make_tcp_transport(Rank{1}, 2, pair_segment, other);
  EXPECT_THAT(refusal_between(*a, *b), HasSubstr("secret"));
}

}  // namespace
}  // namespace capstan::conformance
