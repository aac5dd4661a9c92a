// SPDX-License-Identifier: Apache-2.0

// Clients of a store: whom it lets in, and what becomes of those who send what they should not.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <climits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "capstan/error.hpp"
#include "core/bootstrap/store/store_client.hpp"
#include "core/bootstrap/store/store_server.hpp"
#include "core/bootstrap/store/wire.hpp"
#include "tests/bootstrap/raw_connection.hpp"
#include "tests/relay.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace hostile;
using hostile::Bytes;

StoreServer::Settings impatient() {
  return {.endpoint = TcpEndpoint{},
          .secret = secret(),
          .handshake_timeout = 1500ms,
          .transfer_timeout = 1500ms};
}

Bytes random_payload(std::mt19937& random, std::size_t most) {
  Bytes bytes(random() % (most + 1));
  for (auto& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

void expect_healthy(const StoreServer& server) {
  StoreClient client{{.endpoint = server.endpoint(), .secret = secret()}, patience()};
  put_text(client, "health", "good");
  EXPECT_EQ(get_text(client, "health", patience()), "good");
}

TEST(HostileClient, RandomBytesAreRefused) {
  StoreServer server{impatient()};
  std::mt19937 random{20240607};
  for (int i = 0; i < 100; ++i) {
    RawConnection attacker{server.endpoint()};
    attacker.send(random_payload(random, 3000));
    EXPECT_TRUE(attacker.closed());
  }
  expect_healthy(server);
}

TEST(HostileClient, RandomFramesAreRefusedBeforeAndAfterTheProof) {
  StoreServer server{impatient()};
  std::mt19937 random{4711};
  for (int i = 0; i < 120; ++i) {
    RawConnection attacker{server.endpoint()};
    if (i % 2 == 1) attacker.join();
    const auto payload = random_payload(random, 200);
    const auto type = static_cast<std::uint16_t>(random() % 15);
    const auto length = static_cast<std::uint32_t>(payload.size() + (i % 3 == 0 ? 9 : 0));
    if (i % 4 == 1)
      attacker.send_sealed(type, payload);
    else
      attacker.send(frame(wire::protocol.version, type, length, payload));
    attacker.send(wire::encode(wire::Challenge{}));  // out of turn in any case
    EXPECT_TRUE(attacker.closed());
  }
  expect_healthy(server);
}

TEST(HostileClient, OversizedFrameIsRefusedUnread) {
  StoreServer server{impatient()};
  RawConnection stranger{server.endpoint()};
  stranger.send(frame(wire::protocol.version, 1, 0xffffffff, {}));
  EXPECT_EQ(std::get<wire::Refusal>(stranger.receive()).reason, wire::FailureReason::malformed);
  RawConnection member{server.endpoint()};
  member.join();
  member.send(frame(wire::protocol.version, 6, wire::max_payload + 1, {}));
  EXPECT_EQ(std::get<wire::Refusal>(member.receive()).reason, wire::FailureReason::malformed);
  EXPECT_TRUE(member.closed());
  expect_healthy(server);
}

TEST(HostileClient, OtherVersionIsToldSo) {
  StoreServer server{impatient()};
  RawConnection stranger{server.endpoint()};
  stranger.send(frame(wire::protocol.version + 1, 1, 32, Bytes(32)));
  EXPECT_THAT(std::get<wire::Refusal>(stranger.receive()).text, HasSubstr("version 3"));
  EXPECT_TRUE(stranger.closed());
}

TEST(HostileClient, ReplayedProofIsRefused) {
  StoreServer server{impatient()};
  handshake::Initiator proofs;
  RawConnection first{server.endpoint()}, second{server.endpoint()};
  first.send(proofs.hello());
  second.send(proofs.hello());
  const auto challenge = std::get<wire::Challenge>(first.receive());
  EXPECT_NE(challenge, std::get<wire::Challenge>(second.receive()));
  wire::Join join = proofs.claim(challenge, wire::Membership{-1, 0, ""}, secret());
  second.send(join);
  EXPECT_EQ(std::get<wire::Refusal>(second.receive()).reason, wire::FailureReason::wrong_secret);
  join.claims.scope = "another";  // the proof covers all that is claimed
  first.send(join);
  EXPECT_EQ(std::get<wire::Refusal>(first.receive()).reason, wire::FailureReason::wrong_secret);
}

TEST(HostileClient, ARankOutsideItsCommunicatorIsRefused) {
  StoreServer server{impatient()};
  for (const auto& [rank, size] : {std::pair{2, 2}, {3, 2}, {-2, 2}, {0, 0}, {1 << 30, 2}}) {
    RawConnection member{server.endpoint()};
    handshake::Initiator proofs;
    const auto answer = member.ask_to_join({rank, size, ""}, proofs);
    ASSERT_TRUE(std::holds_alternative<wire::Refusal>(answer)) << rank << " of " << size;
    EXPECT_TRUE(member.closed());
  }
  RawConnection last{server.endpoint()};
  handshake::Initiator proofs;
  EXPECT_TRUE(std::holds_alternative<wire::Welcome>(last.ask_to_join({1, 2, ""}, proofs)));
  expect_healthy(server);
}

TEST(HostileClient, NothingWorksWithoutTheProof) {
  StoreServer server{impatient()};
  const std::vector<wire::StoreMessage> requests{wire::Put{"key", {}}, wire::Get{"key", 0},
                                                 wire::TryGet{"key"}, wire::Join{{}, {-1, 0, ""}}};
  for (const auto& request : requests) {
    RawConnection stranger{server.endpoint()};
    stranger.send(request);
    EXPECT_TRUE(std::holds_alternative<wire::Refusal>(stranger.receive()));
    EXPECT_TRUE(stranger.closed());
  }
}

TEST(HostileClient, AfterTheProofNothingIsTakenInClear) {
  StoreServer server{impatient()};
  for (const wire::StoreMessage& request :
       {wire::StoreMessage{wire::Put{"key", {}}}, wire::StoreMessage{wire::TryGet{"key"}}}) {
    RawConnection member{server.endpoint()};
    member.join();
    member.send(wire::encode(request));
    EXPECT_THAT(std::get<wire::Refusal>(member.receive()).text, HasSubstr("in clear"));
    EXPECT_TRUE(member.closed());
  }
  expect_healthy(server);
}

TEST(HostileClient, SealedMessagesAreTakenOnceAndInOrder) {
  StoreServer server{impatient()};
  const auto expect_refused = [&](const auto& attack) {
    RawConnection member{server.endpoint()};
    member.join();
    const Bytes first = member.sealed(wire::Put{"key", Bytes(1)});
    const Bytes second = member.sealed(wire::Put{"key", Bytes(2)});
    attack(member, first, second);
    wire::StoreMessage answer = member.receive();
    if (std::holds_alternative<wire::Done>(answer)) answer = member.receive();
    EXPECT_TRUE(std::holds_alternative<wire::Refusal>(answer));
    EXPECT_TRUE(member.closed());
  };
  expect_refused([](RawConnection& c, const Bytes& first, const Bytes&) {
    c.send(first);
    c.send(first);  // again
  });
  expect_refused([](RawConnection& c, const Bytes&, const Bytes& second) { c.send(second); });
  expect_refused([](RawConnection& c, Bytes first, const Bytes&) {
    first.back() ^= std::byte{1};
    c.send(first);
  });
  RawConnection one{server.endpoint()}, other{server.endpoint()};
  one.join();
  other.join();
  other.send(one.sealed(wire::Put{"key", Bytes(1)}));
  EXPECT_TRUE(std::holds_alternative<wire::Refusal>(other.receive()));
  expect_healthy(server);
}

TEST(HostileClient, WhoListensLearnsNothing) {
  StoreServer server{impatient()};
  const Relay relay{server.endpoint()};
  StoreClient client{{.endpoint = relay.endpoint(), .secret = secret(), .scope = "scope"},
                     patience()};
  put_text(client, "the key of this", "the value of this");
  EXPECT_EQ(get_text(client, "the key of this", patience()), "the value of this");
  const std::string heard = relay.record();
  EXPECT_THAT(heard, HasSubstr("scope")) << "the handshake is in clear";
  EXPECT_THAT(heard, Not(HasSubstr("the key")));
  EXPECT_THAT(heard, Not(HasSubstr("the value")));
}

TEST(HostileClient, WhatSomebodyOnTheWireHasChangedIsRefused) {
  StoreServer server{impatient()};
  for (const Relay::Way way : {Relay::forth, Relay::back}) {
    std::atomic<bool> changes = false;
    const Relay relay{server.endpoint(), [&](Relay::Way which, std::vector<std::byte>& bytes) {
                        if (changes && which == way) bytes.back() ^= std::byte{1};
                      }};
    StoreClient client{{.endpoint = relay.endpoint(), .secret = secret()}, patience()};
    put_text(client, "key", "good");
    changes = true;
    EXPECT_THROW(put_text(client, "other", "value"), BootstrapError);
    if (way == Relay::forth) {
      StoreClient witness{{.endpoint = server.endpoint(), .secret = secret()}, patience()};
      EXPECT_EQ(witness.try_get("other"), std::nullopt);
    }
  }
  expect_healthy(server);
}

TEST(HostileClient, SilenceAndHalfMessagesEndInBoundedTime) {
  StoreServer server{impatient()};
  RawConnection silent{server.endpoint()}, half_greeted{server.endpoint()},
      half_put{server.endpoint()};
  const auto hello = wire::encode(wire::Hello{});
  half_greeted.send(std::span{hello}.first(20));
  half_put.join();
  const auto put = wire::encode(wire::Put{"key", Bytes(1000)});
  half_put.send(std::span{put}.first(500));
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(half_greeted.closed());
  EXPECT_TRUE(half_put.closed());
}

TEST(HostileClient, ConnectionsAreBounded) {
  auto settings = impatient();
  settings.max_connections = 3;
  StoreServer server{settings};
  std::vector<std::unique_ptr<RawConnection>> members;
  for (int i = 0; i < 3; ++i) {
    members.push_back(std::make_unique<RawConnection>(server.endpoint()));
    members.back()->join();
  }
  RawConnection surplus{server.endpoint()};
  EXPECT_EQ(std::get<wire::Refusal>(surplus.receive()).reason, wire::FailureReason::full);
  members.pop_back();
  expect_healthy(server);  // a client tries again until there is room
}

/// The refusal of a client with the secret that joins as `rank` of `size`; empty: it is let in.
std::string refusal_of(const StoreServer& server, int rank, int size) {
  try {
    StoreClient{{.endpoint = server.endpoint(), .secret = secret(), .rank = rank, .size = size},
                patience()};
  } catch (const BootstrapError& error) {
    return error.what();
  }
  return "";
}

// The store names missing ranks, so it must not make a list of as many as a client thinks of.
TEST(HostileClient, AMemberCannotClaimMoreRanksThanAJobCanHave) {
  StoreServer server{impatient()};
  EXPECT_THAT(refusal_of(server, 0, INT32_MAX),
              HasSubstr("2147483647 ranks; 1048576 are the most"));
  EXPECT_THAT(refusal_of(server, INT32_MAX - 1, INT32_MAX), HasSubstr("are the most"));
  StoreClient first{{.endpoint = server.endpoint(), .secret = secret(), .rank = 0, .size = 1 << 20},
                    patience()};
  try {
    first.get("nothing", Deadline::in(1ms));
    ADD_FAILURE() << "nobody has put this key";
  } catch (const TimedOut& error) {
    EXPECT_THAT(error.what(), HasSubstr("1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 and "
                                        "1048559 more never joined"));
  }
}

TEST(HostileClient, StrangersHaveALimitOfTheirOwn) {
  auto settings = impatient();
  settings.handshake_timeout = 600s;  // only the limit can end them
  settings.max_strangers = 16;
  StoreServer server{settings};
  RawConnection member{server.endpoint()};
  member.join();
  std::vector<std::unique_ptr<RawConnection>> strangers;
  for (int i = 0; i < 100; ++i)
    strangers.push_back(std::make_unique<RawConnection>(server.endpoint()));
  for (int i = 0; i < 84; ++i) EXPECT_TRUE(strangers[static_cast<std::size_t>(i)]->closed()) << i;
  expect_healthy(server);
  member.send(wire::TryGet{"health"});
  EXPECT_TRUE(std::holds_alternative<wire::Value>(member.receive())) << "members stay";
}

}  // namespace
}  // namespace capstan
