// SPDX-License-Identifier: Apache-2.0

// How the TCP transport finds its peers, and how it loses them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>

#include "capstan/error.hpp"
#include "tests/conformance/mailbox.hpp"
#include "tests/conformance/tcp_pair.hpp"
#include "tests/conformance/worlds.hpp"
#include "tests/sanitizers.hpp"
#include "transports/tcp/tcp_socket.hpp"

namespace capstan::conformance {
namespace {

using namespace std::chrono_literals;
using tcp::TcpAddress;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(TcpConnect, AnUnknownCongestionControlIsRefused) {
  TcpOptions options = on_loopback();
  options.congestion_control = "osmosis";
  EXPECT_THAT(
      failure_of<InvalidArgument>([&] { make_tcp_transport(Rank{0}, 1, Bytes{64}, options); }),
      HasSubstr("\"osmosis\" is not to be had here"));
  options.congestion_control = "reno";  // every kernel's
  EXPECT_NO_THROW(make_tcp_transport(Rank{0}, 1, Bytes{64}, options));
}

TEST(TcpConnect, ABadInterfaceIsRefusedWithWhatThereIs) {
  TcpOptions options;
  options.interface = "nosuch0";
  EXPECT_THAT(
      failure_of<InvalidArgument>([&] { make_tcp_transport(Rank{0}, 1, Bytes{64}, options); }),
      AllOf(HasSubstr("nosuch0"), HasSubstr("127.0.0.1")));
}

TEST(TcpConnect, WorksOverAllAddressesOfTheHost) {
  TcpPair pair{TcpOptions{}};
  pair.connect();
  pair.greet();
}

TEST(TcpConnect, WorksOverIpv6) {
  const IpAddress loopback = IpAddress::parse("::1").value();
  if (!tcp::listen_on(loopback).valid()) GTEST_SKIP() << "this system has no IPv6 loopback";
  TcpOptions options;
  options.interface = "::1";
  TcpPair pair{options};
  EXPECT_EQ(endpoint_of(pair[0]).ip, loopback);
  pair.connect();
  pair.greet();
}

TEST(TcpConnect, RefusesTheWrongNumberOfAddressesASecondCallAndAStrangeRank) {
  TcpPair pair;
  std::vector<Address> addresses = pair.addresses();
  addresses.pop_back();
  EXPECT_THROW(pair[0].connect(addresses, Deadline::never()), InvalidArgument);
  pair.connect();
  EXPECT_THROW(pair[0].connect(pair.addresses(), Deadline::never()), InvalidArgument);
  EXPECT_THROW(make_tcp_transport(Rank{2}, 2, Bytes{64}, on_loopback()), InvalidArgument);
  EXPECT_THROW(make_tcp_transport(Rank{-1}, 2, Bytes{64}, on_loopback()), InvalidArgument);
}

TEST(TcpConnect, SaysThatAnAddressIsNoAddress) {
  TcpPair pair;
  const std::vector<Address> addresses{pair[0].address(), Address(77, std::byte{1})};
  EXPECT_THAT(failure_of<BootstrapError>([&] { pair[0].connect(addresses, Deadline::never()); }),
              HasSubstr("rank 1 cannot be met"));
}

/// While it lives, this process can open nothing.
class NoDescriptors {
 public:
  NoDescriptors() {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit{.rlim_cur = 3, .rlim_max = before_.rlim_max};  // all of which are in use
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(TcpConnect, NeedsDescriptorsAndSaysSo) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers need descriptors themselves";
#endif
  if (object_types_are_checked()) GTEST_SKIP() << "that needs descriptors itself";
  const auto make_without = [] {
    const NoDescriptors none;
    make_tcp_transport(Rank{0}, 2, Bytes{64}, on_loopback());
  };
  EXPECT_THAT(failure_of<SystemError>(make_without), HasSubstr("ulimit -n"));
}

// --- Opening ---

TEST(TcpConnect, OpensNothingBeforeAPush) {
  TcpPair pair;
  pair.connect();
  const auto before = descriptors_in_use();
  for (int i = 0; i < 100; ++i) pair.progress();
  EXPECT_EQ(descriptors_in_use(), before);
  pair.raise_flag(0, 1);
  pair.drive_until([&] { return pair.flag_at(1) == 1; }, "the flag");
  EXPECT_EQ(descriptors_in_use(), before + 2);
}

// Both push before either makes progress; then they do so in an order that differs each time.
TEST(TcpConnect, TwoThatOpenAtOnceShareOneConnection) {
  for (std::uint32_t seed = 0; seed < (sanitized ? 60 : 300); ++seed) {
    TcpPair pair;
    pair.connect();
    const auto before = descriptors_in_use();
    std::uint64_t sent = 0;
    std::uint32_t random = seed * 2'654'435'761U + 1;
    const auto draw = [&] { return random = random * 1'664'525U + 1'013'904'223U, random >> 16; };
    wait_until(
        [&] {
          if (sent < 20 && draw() % 2 == 0) {
            pair.raise_flag(0, ++sent);
            pair.raise_flag(1, sent);
          }
          for (auto turns = draw() % 3; turns > 0; --turns) pair[0].progress();
          for (auto turns = draw() % 3; turns > 0; --turns) pair[1].progress();
          return sent == 20 && pair.flag_at(0) == 20 && pair.flag_at(1) == 20;
        },
        "all flags");
    for (int i = 0; i < 100; ++i) pair.progress();
    ASSERT_EQ(descriptors_in_use(), before + 2) << "with seed " << seed;
    ASSERT_EQ(pair[0].departed(Rank{1}), std::nullopt);
    ASSERT_EQ(pair[1].departed(Rank{0}), std::nullopt);
  }
}

TEST(TcpConnect, ManyOpenAtOnceFromProcesses) {
  for (const World& world : mirrored(all_worlds())) {
    if (!world.name.starts_with("tcp")) continue;
    for (int repetition = 0; repetition < 5; ++repetition) {
      world.run(6, [](const Member& member) {
        const auto transport = member.connected(Mailbox::segment_for(6, Bytes{8}));
        Mailbox mailbox{member, *transport, Bytes{8}};
        member.meet();
        for (const Rank peer : member.peers()) mailbox.raise_flag(peer, 1);
        for (const Rank peer : member.peers()) mailbox.await_asleep(peer, 1);
        mailbox.settle();
        for (const Rank peer : member.peers()) EXPECT_EQ(transport->departed(peer), std::nullopt);
        member.meet();
      });
    }
  }
}

// Rank 1 does other things for longer than any time limit of rank 0, after the kernel has accepted
// the connection for it.
TEST(TcpConnect, APeerThatIsBusyIsNotGivenUp) {
  TcpOptions options = on_loopback();
  options.connect_timeout = options.handshake_timeout = options.peer_timeout = 50ms;
  TcpPair pair{options};
  pair.connect();
  pair.raise_flag(0, 1);
  const Deadline busy = Deadline::in(600ms);
  while (!busy.expired()) {
    pair[0].progress();
    EXPECT_EQ(pair[0].departed(Rank{1}), std::nullopt);
  }
  pair.drive_until([&] { return pair.flag_at(1) == 1; }, "the flag");
}

TEST(TcpConnect, APeerThatDoesNotReadIsNotGivenUp) {
  TcpOptions options = on_loopback();
  options.peer_timeout = 50ms;
  const Bytes size{32 << 20};
  TcpPair pair{options, size};
  pair.connect();
  pair.greet();
  std::vector<std::byte> data(size.value() - 8, std::byte{0x5a});
  pair[0].push_from(Rank{1}, Bytes{8}, data.data(), Bytes{data.size()});
  pair.raise_flag(0, 2);
  const Deadline busy = Deadline::in(2s);
  while (!busy.expired()) {
    pair[0].progress();
    ASSERT_EQ(pair[0].departed(Rank{1}), std::nullopt);
    std::this_thread::yield();
  }
  EXPECT_FALSE(pair[0].pushed(Rank{1}));
  pair.drive_until([&] { return pair.flag_at(1) == 2; }, "the flag");
  EXPECT_EQ(std::memcmp(pair[1].link(Rank{0}).segment + 8, data.data(), data.size()), 0);
}

// --- Those who cannot be reached ---

TEST(TcpConnect, SaysWhomItCannotReachAndWhy) {
  TcpPair pair;
  const std::string there = endpoint_of(pair[1]).text();
  const std::vector<Address> addresses = pair.addresses();
  pair.destroy(1);
  pair[0].connect(addresses, Deadline::in(patience));
  EXPECT_EQ(pair[0].departed(Rank{1}), std::nullopt) << "nobody has asked for it yet";
  pair.raise_flag(0, 1);
  EXPECT_THAT(pair.await_departure(0),
              AllOf(HasSubstr("rank 1"), HasSubstr(there), HasSubstr("refused")));
  EXPECT_TRUE(pair[0].pushed(Rank{1}));
}

TEST(TcpConnect, EagerOnesSaySoAtOnce) {
  TcpOptions options = on_loopback();
  options.lazy = false;
  TcpPair pair{options};
  const std::string there = endpoint_of(pair[0]).text();
  const std::vector<Address> addresses = pair.addresses();
  pair.destroy(0);
  EXPECT_THAT(
      failure_of<BootstrapError>([&] { pair[1].connect(addresses, Deadline::in(patience)); }),
      AllOf(HasSubstr("rank 1: connect"), HasSubstr("rank 0"), HasSubstr(there),
            HasSubstr("refused")));
}

TEST(TcpConnect, LoopbackOfAnotherHostIsNotTried) {
  TcpPair pair;
  std::vector<Address> addresses = pair.addresses();
  TcpAddress elsewhere = decoded_tcp(addresses[1]);
  ++elsewhere.host;
  addresses[1] = elsewhere.encode();
  pair[0].connect(addresses, Deadline::in(patience));
  pair.raise_flag(0, 1);
  EXPECT_THAT(pair.await_departure(0), AllOf(HasSubstr("rank 1"), HasSubstr("interface")));
}

// --- Leaving ---

TEST(TcpConnect, AGoodbyeIsNoLoss) {
  TcpPair pair;
  pair.connect();
  pair.greet();
  const std::string there = endpoint_of(pair[0]).text();
  pair.destroy(0);
  EXPECT_THAT(pair.await_departure(1), AllOf(HasSubstr("rank 0"), HasSubstr("destroyed")));
}

TEST(TcpConnect, WhatWasPushedLastArrives) {
  const Bytes size{24 << 20};
  TcpPair pair{on_loopback(), size};
  pair.connect();
  pair.greet();
  std::vector<std::byte> data(size.value() - 8, std::byte{0x5a});
  pair[0].push_from(Rank{1}, Bytes{8}, data.data(), Bytes{data.size()});
  pair.raise_flag(0, 2);
  pair.raise_flag(1, 2);  // on its way while the other one leaves
  std::jthread leaver{[&] { pair.destroy(0); }};
  wait_until([&] { return pair[1].progress(), pair.flag_at(1) == 2; }, "the last flag");
  EXPECT_EQ(std::memcmp(pair[1].link(Rank{0}).segment + 8, data.data(), data.size()), 0);
  leaver.join();
  EXPECT_THAT(pair.await_departure(1), HasSubstr("destroyed"));
  EXPECT_EQ(pair.flag_at(1), 2u);
}

TEST(TcpConnect, ADeathIsNoGoodbye) {
  const auto statuses = run_processes(2, make_tcp(true), [](const Member& member) {
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{8}));
    Mailbox mailbox{member, *transport, Bytes{8}};
    const Rank peer = member.peers()[0];
    mailbox.raise_flag(peer, 1);
    mailbox.await(peer, 1);
    mailbox.settle();
    member.meet();
    if (member.id() == 1) ::raise(SIGKILL);
    std::optional<std::string> reason;
    wait_until([&] { return (reason = transport->departed(peer)).has_value(); }, "the death");
    EXPECT_THAT(*reason, AllOf(HasSubstr("rank 1"), HasSubstr("127.0.0.1:"), HasSubstr("died"),
                               Not(HasSubstr("destroyed"))));
    EXPECT_EQ(mailbox.flag_of(peer), 1u);
    mailbox.raise_flag(peer, 2);  // no signal, no error
    EXPECT_TRUE(transport->pushed(peer));
  });
  EXPECT_EQ(statuses[0], 0) << describe_status(statuses[0]);
  EXPECT_EQ(statuses[1], SIGKILL);
}

/// The child has no copy of the connection, which would stay open as long as the child lives.
TEST(TcpConnect, ADeathIsSeenThoughAForkedChildLivesOn) {
  const auto statuses = run_processes(2, make_tcp(true), [](const Member& member) {
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{8}));
    Mailbox mailbox{member, *transport, Bytes{8}};
    const Rank peer = member.peers()[0];
    mailbox.raise_flag(peer, 1);
    mailbox.await(peer, 1);
    mailbox.settle();
    member.meet();
    if (member.id() == 1) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(300);
        while (true) ::pause();
      }
      mailbox.raise_flag(peer, static_cast<std::uint64_t>(child));
      mailbox.settle();
      ::raise(SIGKILL);
    }
    std::optional<std::string> reason;
    wait_until(
        [&] {
          transport->progress();
          return (reason = transport->departed(peer)).has_value();
        },
        "the death");
    EXPECT_THAT(*reason, HasSubstr("died"));
    EXPECT_EQ(::kill(static_cast<pid_t>(mailbox.flag_of(peer)), SIGKILL), 0);
  });
  EXPECT_EQ(statuses[0], 0) << describe_status(statuses[0]);
  EXPECT_EQ(statuses[1], SIGKILL);
}

/// After a failure: the other one reads nothing, and this one has more for it than fits.
TEST(TcpConnect, OneThatIsToEndSoonDoesNotWaitForTheOther) {
  TcpOptions options = on_loopback();
  options.linger = std::chrono::minutes{10};
  const Bytes size{64 << 20};
  TcpPair pair{options, size};
  pair.connect();
  pair.greet();
  std::vector<std::byte> data(size.value() - 8, std::byte{0x5a});
  pair[0].push_from(Rank{1}, Bytes{8}, data.data(), Bytes{data.size()});
  pair.raise_flag(0, 2);
  pair[0].end_soon();
  const auto start = std::chrono::steady_clock::now();
  pair.destroy(0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes{2});
  pair[1].end_soon();
}

TEST(TcpConnect, AForkedChildDisturbsNobody) {
  TcpPair pair;
  pair.connect();
  pair.greet();
  const pid_t child = fork_body([&] {
    pair.destroy(0);
    pair.destroy(1);
  });
  EXPECT_EQ(status_of(child), 0);
  for (std::uint64_t value = 2; value < 50; ++value) pair.greet(value);
  EXPECT_EQ(pair[0].departed(Rank{1}), std::nullopt);
}

}  // namespace
}  // namespace capstan::conformance
