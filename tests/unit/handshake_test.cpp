// SPDX-License-Identifier: Apache-2.0

// Mutual proof of a secret (core/platform/net/handshake), and the framing of messages
// (core/platform/net/message).

#include "core/platform/net/handshake.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace capstan::handshake {
namespace {

using testing::HasSubstr;

/// A protocol of two messages.
struct Name {
  std::string text;
  bool operator==(const Name&) const = default;
};
void write(ByteWriter& w, const Name& m) {
  w.text(m.text, 16);
}
void read(ByteReader& r, Name& m) {
  m = {r.text(1, 16)};
}
using TestClaim = Claim<Name>;
using TestMessage = std::variant<Hello, TestClaim>;
constexpr ProtocolId protocol{.magic = {'T', 'E', 'S', 'T'}, .version = 3, .name = "the test"};

const Secret& secret() {
  static const Secret value = Secret::from_text("a secret of this test");
  return value;
}

TEST(Handshake, BothEndsAcceptEachOther) {
  Initiator initiator;
  Acceptor acceptor;
  const auto challenge = acceptor.challenge(initiator.hello());
  const TestClaim claim = initiator.claim(challenge, Name{"rank 1"}, secret());
  ASSERT_TRUE(acceptor.trusts(claim, secret()));
  EXPECT_TRUE(initiator.trusts(acceptor.welcome(claim, secret())));
}

TEST(Handshake, AnotherSecretIsRefusedByEitherEnd) {
  const Secret other = Secret::from_text("another secret");
  Initiator initiator;
  Acceptor acceptor;
  const TestClaim claim =
      initiator.claim(acceptor.challenge(initiator.hello()), Name{"rank 1"}, secret());
  EXPECT_FALSE(acceptor.trusts(claim, other));
  EXPECT_FALSE(initiator.trusts(acceptor.welcome(claim, other)));
}

TEST(Handshake, AChangedClaimIsRefused) {
  Initiator initiator;
  Acceptor acceptor;
  TestClaim claim =
      initiator.claim(acceptor.challenge(initiator.hello()), Name{"rank 1"}, secret());
  claim.claims.text = "rank 2";
  EXPECT_FALSE(acceptor.trusts(claim, secret()));
}

TEST(Handshake, EveryByteOfAProofCounts) {
  Initiator initiator;
  Acceptor acceptor;
  const TestClaim claim =
      initiator.claim(acceptor.challenge(initiator.hello()), Name{"rank 1"}, secret());
  const Welcome welcome = acceptor.welcome(claim, secret());
  for (std::size_t i = 0; i < claim.proof.size(); ++i) {
    TestClaim wrong_claim = claim;
    Welcome wrong_welcome = welcome;
    wrong_claim.proof[i] ^= std::byte{1};
    wrong_welcome.proof[i] ^= std::byte{1};
    EXPECT_FALSE(acceptor.trusts(wrong_claim, secret())) << i;
    EXPECT_FALSE(initiator.trusts(wrong_welcome)) << i;
  }
}

TEST(Handshake, AProofSentBackIsRefused) {
  Initiator initiator;
  Acceptor acceptor;
  const TestClaim claim =
      initiator.claim(acceptor.challenge(initiator.hello()), Name{"rank 1"}, secret());
  EXPECT_FALSE(initiator.trusts(Welcome{claim.proof}));
  EXPECT_FALSE(
      acceptor.trusts(TestClaim{acceptor.welcome(claim, secret()).proof, claim.claims}, secret()));
}

TEST(Handshake, AProofOfAnotherConnectionIsRefused) {
  Initiator initiator;
  Acceptor first, second;
  const TestClaim claim =
      initiator.claim(first.challenge(initiator.hello()), Name{"rank 1"}, secret());
  second.challenge(initiator.hello());
  EXPECT_FALSE(second.trusts(claim, secret()));
}

TEST(Handshake, NothingIsTrustedBeforeItsTurn) {
  const Initiator initiator;
  const Acceptor acceptor;
  EXPECT_FALSE(initiator.trusts(Welcome{}));
  EXPECT_ANY_THROW(static_cast<void>(acceptor.trusts(TestClaim{}, secret())));
}

/// Reads the bytes one at a time. The last message.
std::optional<TestMessage> read_one_by_one(std::span<const std::byte> bytes, std::size_t limit) {
  PayloadReader reader{protocol, limit};
  std::optional<TestMessage> message;
  for (const std::byte byte : bytes) {
    reader.space().front() = byte;
    reader.commit(1);
    if (const auto payload = reader.take_payload())
      message = decode_message<TestMessage>(payload->type, payload->bytes);
  }
  return message;
}

std::string refusal_of(std::span<const std::byte> bytes, std::size_t limit = max_payload) {
  try {
    read_one_by_one(bytes, limit);
  } catch (const MalformedMessage& error) {
    return error.what();
  }
  return "not refused";
}

TEST(Message, ArrivesWholeHoweverItIsCut) {
  const TestMessage message = TestClaim{Digest{std::byte{7}}, Name{"rank 1"}};
  EXPECT_EQ(read_one_by_one(encode_message(protocol, message), max_payload), message);
}

TEST(Message, ThatIsNoneIsRefusedWithTheReason) {
  const auto good = encode_message(protocol, TestMessage{TestClaim{{}, Name{"rank 1"}}});
  constexpr std::size_t magic = 0, version = 4, type = 6, text_size = 12 + 32;
  const auto changed = [&](std::size_t at, std::byte value) {
    auto bytes = good;
    bytes[at] = value;
    return refusal_of(bytes);
  };
  EXPECT_EQ(refusal_of(good), "not refused");
  EXPECT_THAT(changed(magic, std::byte{'H'}), HasSubstr("not the test"));
  EXPECT_THAT(changed(version, std::byte{4}), HasSubstr("version 4"));
  EXPECT_THAT(changed(type, std::byte{9}), HasSubstr("type 9"));
  EXPECT_THAT(changed(text_size, std::byte{5}), HasSubstr("too many"));
  EXPECT_THAT(changed(text_size, std::byte{7}), HasSubstr("too early"));
  EXPECT_THAT(changed(text_size, std::byte{0}), HasSubstr("a text of 0 bytes"));
  EXPECT_THAT(refusal_of(good, 20), HasSubstr("20 are the most"));
}

}  // namespace
}  // namespace capstan::handshake
