// SPDX-License-Identifier: Apache-2.0

// Whom the TCP transport lets in, and what becomes of those who send what they should not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "capstan/error.hpp"
#include "tests/conformance/captured_output.hpp"
#include "tests/conformance/tcp_frames.hpp"
#include "tests/conformance/tcp_pair.hpp"
#include "transports/tcp/handshake.hpp"
#include "transports/tcp/tcp_socket.hpp"

namespace capstan::conformance {
namespace {

using namespace std::chrono_literals;
using tcp::Identity;
using tcp::RefusalReason;
using testing::AllOf;
using testing::HasSubstr;

/// Somebody who connects to a transport and says what it likes.
class Stranger {
 public:
  explicit Stranger(const Transport& target) : socket_(tcp::begin_connect(endpoint_of(target))) {}

  void say(std::span<const std::byte> bytes) { EXPECT_TRUE(send_all(socket_, bytes)); }
  void say(const std::vector<std::byte>& bytes) { say(std::span{bytes}); }
  void say(const tcp::HandshakeMessage& message) { say(tcp::encode(message)); }
  void hang_up() { socket_.reset(); }

  /// The next message from the other end, or nothing when that has hung up. `drive` moves it.
  template <class Drive>
  std::optional<tcp::HandshakeMessage> hear(Drive drive) {
    tcp::HandshakeReader reader{handshake::max_answer};
    std::optional<tcp::HandshakeMessage> message;
    bool closed = false;
    wait_until(
        [&] {
          drive();
          const ssize_t got = receive_some(socket_, reader.space());
          closed = got == 0 || (got < 0 && !would_block(errno));
          if (got > 0) reader.commit(static_cast<std::size_t>(got));
          message = reader.take();
          return closed || message.has_value();
        },
        "an answer");
    return message;
  }
  template <class Drive>
  bool is_dropped(Drive drive) {
    std::array<std::byte, 256> waste;
    wait_until(
        [&] {
          drive();
          const ssize_t got = receive_some(socket_, waste);
          return got == 0 || (got < 0 && !would_block(errno));
        },
        "the connection to be dropped");
    return true;
  }

 private:
  FileDescriptor socket_;
};

/// The claim of rank 1.
Identity good_identity() {
  return {.segment = pair_segment.value(), .from = 1, .to = 0, .ranks = 2};
}

/// The secret that rank 1 proves to rank 0.
Secret shared_secret(TcpPair& pair, const JobKey& key = test_key()) {
  return tcp::secret_of(key, {1, decoded_tcp(pair[1].address()).id},
                        {0, decoded_tcp(pair[0].address()).id});
}

/// Claims to be `identity`. The answer.
std::optional<tcp::HandshakeMessage> claim(Stranger& stranger, TcpPair& pair,
                                           const Identity& identity, const Secret& secret) {
  const auto drive = [&] { pair[0].progress(); };
  handshake::Initiator proofs;
  stranger.say(proofs.hello());
  const auto challenge = stranger.hear(drive);
  if (!challenge || !std::holds_alternative<tcp::Challenge>(*challenge)) return challenge;
  stranger.say(proofs.claim(std::get<tcp::Challenge>(*challenge), identity, secret));
  return stranger.hear(drive);
}

/// Goes through the handshake as rank 1.
void pose_as_rank_1(Stranger& stranger, TcpPair& pair) {
  const auto welcome = claim(stranger, pair, good_identity(), shared_secret(pair));
  ASSERT_TRUE(welcome && std::holds_alternative<tcp::Welcome>(*welcome));
}

std::optional<RefusalReason> reason_of(const std::optional<tcp::HandshakeMessage>& message) {
  const auto* refusal = message ? std::get_if<tcp::Refusal>(&*message) : nullptr;
  return refusal ? std::optional{refusal->reason} : std::nullopt;
}

// --- Frames ---

// --- Strangers ---

TEST(TcpHostile, OtherProtocolsAreRefused) {
  CapturedOutput output;
  TcpPair pair;
  pair.connect();
  const auto drive = [&] { pair[0].progress(); };
  const auto refusal_of = [&](std::size_t offset, std::byte value) {
    Stranger stranger{pair[0]};
    auto bytes = tcp::encode(tcp::Hello{});
    bytes[offset] = value;
    stranger.say(bytes);
    const auto answer = stranger.hear(drive);
    EXPECT_TRUE(stranger.is_dropped(drive));
    return reason_of(answer);
  };
  constexpr std::size_t magic = 0, version = 4, type = 6;
  EXPECT_EQ(refusal_of(version, std::byte{77}), RefusalReason::other_version);
  EXPECT_THAT(output.text(), HasSubstr("version 77"));
  EXPECT_EQ(refusal_of(magic, std::byte{'G'}), RefusalReason::malformed);
  EXPECT_EQ(refusal_of(type, std::byte{99}), RefusalReason::malformed);
  pair.greet();
}

TEST(TcpHostile, StrangersAreRefusedAndToldWhy) {
  CapturedOutput output;
  TcpPair pair;
  pair.connect();
  const auto refusal_of = [&](const Identity& identity) {
    Stranger stranger{pair[0]};
    const auto answer = claim(stranger, pair, identity, shared_secret(pair));
    EXPECT_TRUE(stranger.is_dropped([&] { pair[0].progress(); }));
    return reason_of(answer);
  };
  Identity bad = good_identity();
  for (const std::int32_t from : {0, 2, -1, INT32_MAX, INT32_MIN}) {
    bad.from = from;
    EXPECT_EQ(refusal_of(bad), RefusalReason::wrong_rank) << from;
  }
  bad = good_identity();
  bad.to = 1;
  EXPECT_EQ(refusal_of(bad), RefusalReason::wrong_rank);
  bad = good_identity();
  bad.ranks = 3;
  EXPECT_EQ(refusal_of(bad), RefusalReason::wrong_rank);
  bad = good_identity();
  bad.segment = 17;
  EXPECT_EQ(refusal_of(bad), RefusalReason::wrong_segment);
  EXPECT_THAT(output.text(), AllOf(HasSubstr("127.0.0.1:"), HasSubstr("segment of 17 bytes")));
  EXPECT_EQ(pair[0].departed(Rank{1}), std::nullopt);
  pair.greet();
}

TEST(TcpHostile, OneWithoutTheSecretIsRefused) {
  CapturedOutput output;
  TcpPair pair;
  pair.connect();
  Stranger stranger{pair[0]};
  const auto answer = claim(stranger, pair, good_identity(), Secret::random());
  EXPECT_EQ(reason_of(answer), RefusalReason::wrong_secret);
  EXPECT_THAT(output.text(), HasSubstr("lacks the secret"));
  pair.greet();
}

// A stranger without the secret learns nothing about segments.
TEST(TcpHostile, TheProofIsCheckedBeforeTheSegment) {
  CapturedOutput output;
  TcpPair pair;
  pair.connect();
  Stranger stranger{pair[0]};
  Identity bad = good_identity();
  bad.segment = 17;
  EXPECT_EQ(reason_of(claim(stranger, pair, bad, Secret::random())), RefusalReason::wrong_secret);
  pair.greet();
}

TEST(TcpHostile, AClaimOfAnotherConnectionIsRefused) {
  CapturedOutput output;
  TcpPair pair;
  pair.connect();
  const auto drive = [&] { pair[0].progress(); };
  handshake::Initiator proofs;
  Stranger first{pair[0]}, second{pair[0]};
  first.say(proofs.hello());
  second.say(proofs.hello());
  const auto challenge = first.hear(drive);
  ASSERT_TRUE(challenge && second.hear(drive));
  second.say(
      proofs.claim(std::get<tcp::Challenge>(*challenge), good_identity(), shared_secret(pair)));
  EXPECT_EQ(reason_of(second.hear(drive)), RefusalReason::wrong_secret);
  pair.greet();
}

// A rank proves itself to an acceptor first. The acceptor that only sends the proof back does not
// know the secret.
TEST(TcpHostile, AReflectedProofIsRefused) {
  CapturedOutput output;
  TcpPair pair;
  const FileDescriptor listener = capstan::listen_on(TcpEndpoint{});
  std::vector<Address> addresses = pair.addresses();
  tcp::TcpAddress impostor = decoded_tcp(addresses[1]);
  impostor.count = 0;
  impostor.add(local_address(listener).ip_endpoint());
  addresses[1] = impostor.encode();
  pair[0].connect(addresses, Deadline::in(patience));
  pair.raise_flag(0, 1);
  FileDescriptor connection;
  tcp::HandshakeReader reader{handshake::max_payload};
  wait_until(
      [&] {
        pair[0].progress();
        if (!connection.valid()) connection = accept_from(listener).socket;
        if (!connection.valid()) return false;
        const ssize_t got = receive_some(connection, reader.space());
        if (got > 0) reader.commit(static_cast<std::size_t>(got));
        const auto message = reader.take();
        if (message && std::holds_alternative<tcp::Hello>(*message))
          send_all(connection, tcp::encode(tcp::Challenge{}));
        if (const auto* claim = message ? std::get_if<tcp::Claim>(&*message) : nullptr)
          send_all(connection, tcp::encode(tcp::Welcome{claim->proof}));
        return pair[0].departed(Rank{1}).has_value();
      },
      "the impostor to be found out");
  EXPECT_THAT(*pair[0].departed(Rank{1}),
              AllOf(HasSubstr("rank 1"), HasSubstr("does not know the secret")));
}

TEST(TcpHostile, GarbageOfAllKindsDoesNoHarm) {
  CapturedOutput output;
  TcpPair pair;
  pair.connect();
  const auto drive = [&] { pair[0].progress(); };
  std::uint32_t random = 1;
  for (int i = 0; i < 300; ++i) {
    std::vector<std::byte> bytes(1 + static_cast<std::size_t>(i) * 7 % 3000);
    for (std::byte& b : bytes) b = static_cast<std::byte>((random = random * 1'664'525U + 1) >> 24);
    const auto hello = tcp::encode(tcp::Hello{});
    if (i % 3 == 0 && bytes.size() >= hello.size())  // something true in front
      std::ranges::copy(hello, bytes.begin());
    Stranger stranger{pair[0]};
    stranger.say(std::span<const std::byte>{bytes});
    if (i % 2 == 0) stranger.hang_up();
    if (i % 2 == 1 && bytes.size() > 200) stranger.is_dropped(drive);
    drive();
  }
  EXPECT_LE(std::ranges::count(output.text(), '\n'), 25)
      << "the log must not be filled by strangers";
  pair.greet();
}

TEST(TcpHostile, SilentOnesAreDroppedInTime) {
  CapturedOutput output;
  TcpOptions options = on_loopback();
  options.handshake_timeout = 30ms;
  TcpPair pair{options};
  pair.connect();
  const auto drive = [&] { pair[0].progress(); };
  const auto hello = tcp::encode(tcp::Hello{});
  Stranger silent{pair[0]}, halfway{pair[0]}, unproved{pair[0]};
  halfway.say(std::span{hello}.first(20));
  unproved.say(hello);
  EXPECT_TRUE(silent.is_dropped(drive));
  EXPECT_TRUE(halfway.is_dropped(drive));
  EXPECT_TRUE(unproved.is_dropped(drive));
  EXPECT_THAT(output.text(), HasSubstr("in time"));
  pair.greet();
}

TEST(TcpHostile, OnlySoManyStrangersAreHeldAtOnce) {
  CapturedOutput output;
  TcpPair pair;
  pair.connect();
  const auto before = descriptors_in_use();
  std::vector<std::unique_ptr<Stranger>> strangers;
  for (int i = 0; i < 200; ++i) {
    strangers.push_back(std::make_unique<Stranger>(pair[0]));
    pair[0].progress();
  }
  for (int i = 0; i < 1000; ++i) pair[0].progress();
  EXPECT_LE(descriptors_in_use(), before + 200 + 2 + 64);
  pair.greet();  // the way in is not blocked
}

// --- Ranks that are not what they should be ---

TEST(TcpHostile, AListenerWithoutTheSecretIsNoPeer) {
  CapturedOutput output;
  TcpPair pair;
  std::vector<Address> addresses = pair.addresses();
  pair[1].connect(addresses, Deadline::in(patience));
  tcp::TcpAddress changed = decoded_tcp(addresses[1]);
  changed.id[0] ^= std::byte{1};
  addresses[1] = changed.encode();
  pair[0].connect(addresses, Deadline::in(patience));
  pair.raise_flag(0, 1);
  EXPECT_THAT(pair.await_departure(0), AllOf(HasSubstr("rank 1"), HasSubstr("secret")));
}

// A recording of a world's start-up has all addresses. A recording of another world of the same
// secret has its proofs, too: the nonce of the key is another one.
TEST(TcpHostile, AddressesOfAllRanksAreNotEnoughToBeOne) {
  CapturedOutput output;
  TcpPair pair;
  pair.connect();
  Nonce other_run{};
  other_run[0] = std::byte{1};
  const JobKey recorded{Secret::from_text("the secret of these tests"), other_run};
  for (const JobKey& key : {recorded, JobKey{Secret::from_text(""), Nonce{}}}) {
    Stranger stranger{pair[0]};
    EXPECT_EQ(reason_of(claim(stranger, pair, good_identity(), shared_secret(pair, key))),
              RefusalReason::wrong_secret);
    stranger.say(frame(0, 8, 8));
  }
  pair.greet();
}

TEST(TcpHostile, AnotherSizeOfSegmentIsReported) {
  CapturedOutput output;
  const auto a = make_tcp_transport(Rank{0}, 2, Bytes{64}, on_loopback());
  const auto b = make_tcp_transport(Rank{1}, 2, Bytes{128}, on_loopback());
  EXPECT_THAT(refusal_between(*a, *b), AllOf(HasSubstr("rank 1"), HasSubstr("128 bytes")));
}

TEST(TcpHostile, AFrameOutsideTheSegmentEndsTheConnection) {
  CapturedOutput output;
  TcpPair pair;
  pair.connect();
  Stranger stranger{pair[0]};
  pose_as_rank_1(stranger, pair);
  stranger.say(frame(0, 8, 8));
  stranger.say(frame(pair_segment.value() - 4, 8, 8));
  std::optional<std::string> reason;
  wait_until([&] { return pair[0].progress(), (reason = pair[0].departed(Rank{1})).has_value(); },
             "the connection to be dropped");
  EXPECT_THAT(*reason, AllOf(HasSubstr("rank 1"), HasSubstr("127.0.0.1:"), HasSubstr("frame")));
  EXPECT_EQ(pair[0].link(Rank{1}).segment[7], std::byte{7}) << "what came before stays";
  EXPECT_TRUE(stranger.is_dropped([] {}));
}

TEST(TcpHostile, AFrameThatEndsTooEarlyIsALoss) {
  CapturedOutput output;
  for (const std::size_t payload : {std::size_t{0}, std::size_t{5}, std::size_t{4000}}) {
    TcpPair pair;
    pair.connect();
    Stranger stranger{pair[0]};
    pose_as_rank_1(stranger, pair);
    stranger.say(frame(0, 50'000, payload));
    stranger.hang_up();
    std::optional<std::string> reason;
    wait_until([&] { return pair[0].progress(), (reason = pair[0].departed(Rank{1})).has_value(); },
               "the end to be noticed");
    EXPECT_THAT(*reason, HasSubstr("without a goodbye"));
  }
}

TEST(TcpHostile, TheSameRankIsNotLetInTwice) {
  CapturedOutput output;
  TcpPair pair;
  pair.connect();
  pair.greet();
  Stranger stranger{pair[0]};
  const auto answer = claim(stranger, pair, good_identity(), shared_secret(pair));
  EXPECT_EQ(reason_of(answer), RefusalReason::crossed);
  pair.greet(2);
}

}  // namespace
}  // namespace capstan::conformance
