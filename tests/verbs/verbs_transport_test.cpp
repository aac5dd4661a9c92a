// SPDX-License-Identifier: Apache-2.0

// Promises of the transport over verbs beyond the contract of all transports.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <numeric>

#include "capstan/error.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "tests/conformance/exposed.hpp"
#include "tests/conformance/mailbox.hpp"
#include "tests/conformance/worlds.hpp"
#include "transports/verbs/verbs_address.hpp"

namespace capstan::conformance {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

class VerbsTransport : public testing::Test {
 protected:
  void SetUp() override {
    const std::string obstacle = verbs_obstacle();
    if (!obstacle.empty()) GTEST_SKIP() << obstacle;
  }

  static void run(int ranks, const Body& body, VerbsOptions options = {}) {
    World{.name = "verbs", .processes = true, .new_maker = [=] { return make_verbs(options); }}.run(
        ranks, body);
  }
};

std::string failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing: it worked";
}

TEST_F(VerbsTransport, SaysWhatTheDevicesAre) {
  for (const VerbsDevice& device : verbs_devices()) {
    EXPECT_THAT(device.name, HasSubstr(":"));
    EXPECT_THAT(device.description, HasSubstr("bytes a packet"));
  }
}

TEST_F(VerbsTransport, RefusesAGidThatIsNotThere) {
  VerbsOptions options;
  options.gid_index = 200;
  EXPECT_THAT(failure_of([&] { make_verbs_transport(Rank{0}, 1, Bytes{64}, options); }),
              AllOf(HasSubstr("rank 0"), HasSubstr("no GID with index 200")));
}

std::uint64_t pinned_kilobytes() {
  std::ifstream status{"/proc/self/status"};
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmPin:")) return std::stoull(line.substr(6));
  }
  ADD_FAILURE() << "the kernel does not say how much is pinned";
  return 0;
}

TEST_F(VerbsTransport, PinsWhatIsUsedAlone) {
  run(2, [](const Member& member) {
    constexpr std::uint64_t size = std::uint64_t{1} << 30, piece = 2 << 20;
    const auto transport = member.connected(Bytes{size});
    const Rank peer = member.peers()[0];
    EXPECT_LE(pinned_kilobytes(), 3 * piece >> 10);
    for (const std::uint64_t offset : {size / 2, size / 2 + 64, size - 8}) {
      transport->segment()[offset] = std::byte{1};
      transport->push(peer, Bytes{offset}, Bytes{8});
    }
    transport->wake(transport->link(peer));
    wait_until(
        [&] {
          transport->progress();
          return transport->link(peer).segment[size - 8] == std::byte{1} && transport->pushed(peer);
        },
        "the last byte");
    EXPECT_LE(pinned_kilobytes(), 5 * piece >> 10);
    member.meet();
  });
}

/// Private anonymous memory, filled with the words of a round.
std::byte* map_source(void* where, std::uint64_t words, const Member& member, std::uint64_t round) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED_NOREPLACE : 0);
  void* memory = ::mmap(where, words * 8, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory");
  auto* bytes = static_cast<std::byte*>(memory);
  write_message(bytes, member.self(), member.peers()[0], round, words);
  return bytes;
}

/// Pushes words from elsewhere and checks those that the peer has pushed.
void exchange_from(const Member& member, Transport& transport, Mailbox& mailbox, const void* source,
                   std::uint64_t words, std::uint64_t round) {
  const Rank peer = member.peers()[0];
  transport.push_from(peer, mailbox.offset_of(peer, round), source, Bytes{words * 8});
  mailbox.raise_flag(peer, round);
  mailbox.await(peer, round);
  EXPECT_EQ(wrong_words(mailbox.incoming(peer, round), peer, member.self(), round, words), 0u)
      << "in round " << round;
  mailbox.settle();
}

TEST_F(VerbsTransport, SourcesStayPinnedForTheNextTime) {
  run(2, [](const Member& member) {
    constexpr std::uint64_t words = 1 << 18, kilobytes = words * 8 >> 10;
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{words * 8}));
    Mailbox mailbox{member, *transport, Bytes{words * 8}};
    std::byte* source = map_source(nullptr, words, member, 1);
    const std::uint64_t before = pinned_kilobytes();
    std::uint64_t pinned = 0;
    for (std::uint64_t round = 1; round <= 12; ++round) {
      write_message(source, member.self(), member.peers()[0], round, words);
      exchange_from(member, *transport, mailbox, source, words, round);
      if (round == 2) pinned = pinned_kilobytes();  // of both slots, too
    }
    EXPECT_GE(pinned, before + kilobytes) << "also when all is sent";
    EXPECT_LE(pinned_kilobytes(), pinned);
    ::munmap(source, words * 8);
    member.meet();
  });
}

TEST_F(VerbsTransport, OtherMemoryAtTheSameAddressIsSentAsItIs) {
  run(2, [](const Member& member) {
    constexpr std::uint64_t words = 1 << 15;
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{words * 8}));
    Mailbox mailbox{member, *transport, Bytes{words * 8}};
    std::byte* source = nullptr;
    for (std::uint64_t round = 1; round <= 20; ++round) {
      source = map_source(source, words, member, round);
      transport->announce_sources({source, round % 2 * words * 8}, {});  // or not at all
      exchange_from(member, *transport, mailbox, source, words, round);
      ::munmap(source, words * 8);
    }
    member.meet();
  });
}

/// A mapping like that of segments of other ranks on this host. Kernels before 6.2 do not pin it.
TEST_F(VerbsTransport, SharedMemoryThatMayOnlyBeReadIsSentToo) {
  run(2, [](const Member& member) {
    constexpr std::uint64_t words = 1 << 15;
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{words * 8}));
    Mailbox mailbox{member, *transport, Bytes{words * 8}};
    const FileDescriptor file{::memfd_create("source", MFD_CLOEXEC)};
    ASSERT_EQ(::ftruncate(file.get(), words * 8), 0);
    const auto map = [&](int protection) {
      void* memory = ::mmap(nullptr, words * 8, protection, MAP_SHARED, file.get(), 0);
      return static_cast<std::byte*>(memory);
    };
    std::byte* const writable = map(PROT_READ | PROT_WRITE);
    const std::byte* const readable = map(PROT_READ);
    for (std::uint64_t round = 1; round <= 10; ++round) {
      write_message(writable, member.self(), member.peers()[0], round, words);
      exchange_from(member, *transport, mailbox, readable, words, round);
    }
    member.meet();
  });
}

TEST_F(VerbsTransport, NoMoreThanAskedForStaysPinned) {
  VerbsOptions options;
  options.cached_sources = Bytes{1 << 20};
  const auto body = [](const Member& member) {
    constexpr std::uint64_t words = 1 << 15, kilobytes = words * 8 >> 10;
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{words * 8}));
    Mailbox mailbox{member, *transport, Bytes{words * 8}};
    std::uint64_t most = 0;
    for (std::uint64_t round = 1; round <= 20; ++round) {
      const std::byte* source = map_source(nullptr, words, member, round);
      exchange_from(member, *transport, mailbox, source, words, round);
      if (round == 2) most = pinned_kilobytes() + 1024 - 2 * kilobytes;  // both slots, two sources
      EXPECT_TRUE(round <= 2 || pinned_kilobytes() <= most) << "in round " << round;
    }
    member.meet();
  };
  run(2, body, options);
}

TEST_F(VerbsTransport, RanksWithOtherPiecesAreRefused) {
  run(2, [](const Member& member) {
    VerbsOptions options;
    if (member.id() == 1) options.piece = Bytes{4096};
    const auto transport = make_verbs_transport(member.self(), 2, Bytes{64}, options);
    const auto addresses = member.exchange(transport->address());
    EXPECT_THAT(failure_of([&] { transport->connect(addresses, Deadline::in(patience)); }),
                AllOf(HasSubstr(fmt::format("rank {} cannot be met", 1 - member.id())),
                      HasSubstr("pieces of")));
    member.meet();
  });
}

TEST_F(VerbsTransport, WhoDoesNotKnowTheKeyIsNotHeard) {
  run(2, [](const Member& member) {
    VerbsOptions options;  // rank 1 is a stranger who knows everything but the key
    if (member.id() == 0) options.key = test_key();
    const auto transport = make_verbs_transport(member.self(), 2, Bytes{64}, options);
    const auto addresses = member.exchange(transport->address());
    EXPECT_THAT(failure_of([&] { transport->connect(addresses, Deadline::in(1500ms)); }),
                HasSubstr(fmt::format("rank {} (process", 1 - member.id())));
    member.meet();
  });
}

TEST_F(VerbsTransport, SaysHowAPeerWasLost) {
  const auto maker = make_verbs({});
  const auto statuses = run_processes(2, maker, [](const Member& member) {
    const auto transport = member.connected(Bytes{4096});
    member.meet();
    if (member.id() == 1) ::raise(SIGKILL);
    std::optional<std::string> reason;
    wait_until([&] { return (reason = transport->departed(Rank{1})).has_value(); }, "the death");
    EXPECT_THAT(*reason, AllOf(HasSubstr("rank 1 (process "), HasSubstr(" on host "),
                               HasSubstr("transport retry counter exceeded"),
                               HasSubstr("its process or host has died")));
    transport->push(Rank{1}, Bytes{0}, Bytes{4096});
    transport->wake(transport->link(Rank{1}));
    EXPECT_TRUE(transport->pushed(Rank{1})) << "nothing is read for the dead";
  });
  EXPECT_EQ(statuses[0], 0) << describe_status(statuses[0]);
}

/// More than a receiver has room for while it receives nothing.
TEST_F(VerbsTransport, AReceiverThatIsBusyIsNotOverrun) {
  run(2, [](const Member& member) {
    constexpr std::uint64_t rounds = 3000;
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{8}));
    Mailbox mailbox{member, *transport, Bytes{8}};
    const Rank peer = member.peers()[0];
    for (std::uint64_t round = 1; member.id() == 0 && round <= rounds; ++round) {
      mailbox.raise_flag(peer, round);
      transport->progress();
    }
    member.meet();
    if (member.id() == 1) mailbox.await(peer, rounds);
    mailbox.settle();
    EXPECT_EQ(transport->departed(peer), std::nullopt);
    member.meet();
  });
}

TEST_F(VerbsTransport, DetachedSourcesMayChangeAtOnce) {
  run(2, [](const Member& member) {
    constexpr std::uint64_t words = 1 << 17;
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{words * 8}));
    Mailbox mailbox{member, *transport, Bytes{words * 8}};
    const Rank peer = member.peers()[0];
    std::vector<std::byte> source(words * 8);
    for (std::uint64_t round = 1; round <= 4; ++round) {
      write_message(source.data(), member.self(), peer, round, words);
      transport->push_from(peer, mailbox.offset_of(peer, round), source.data(), Bytes{words * 8});
      if (round % 2 == 0) mailbox.raise_flag(peer, round);  // some of it is under way already
      transport->detach_sources(peer);
      std::ranges::fill(source, std::byte{0xee});
      if (round % 2 == 1) mailbox.raise_flag(peer, round);
      mailbox.await(peer, round);
      EXPECT_EQ(wrong_words(mailbox.incoming(peer, round), peer, member.self(), round, words), 0u);
      EXPECT_EQ(transport->departed(peer), std::nullopt);
      mailbox.settle();
      member.meet();
    }
  });
}

/// Also where an operation has announced and sent what was at that address before.
TEST_F(VerbsTransport, OtherMemoryAtTheSameAddressIsReadAsItIs) {
  run(2, [](const Member& member) {
    constexpr std::uint64_t words = 1 << 15;
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{words * 8}));
    Mailbox mailbox{member, *transport, Bytes{words * 8}};
    const Rank peer = member.peers()[0];
    std::byte* source = nullptr;
    std::vector<std::byte> target(words * 8);
    for (std::uint64_t round = 1; round <= 6; ++round) {
      source = map_source(source, words, member, round);
      if (round % 3 == 1) {
        transport->announce_sources({source, words * 8}, {});
        exchange_from(member, *transport, mailbox, source, words, round);
      }
      const auto exposed = transport->expose(peer, source, Bytes{words * 8}, MemoryKind::host);
      const Remote theirs = exchange_exposed(member, *exposed)[peer.value()];
      const auto read = transport->start_read(peer, theirs.address, theirs.key, target.data(),
                                              Bytes{words * 8}, MemoryKind::host);
      await_end(*transport, *read);
      EXPECT_EQ(wrong_words(target.data(), peer, member.self(), round, words), 0u) << round;
      member.meet();
      ::munmap(source, words * 8);
    }
    member.meet();
  });
}

TEST_F(VerbsTransport, WhatWasPushedBeforeTheEndArrives) {
  run(2, [](const Member& member) {
    constexpr std::uint64_t words = 1 << 19;
    auto transport = member.connected(Mailbox::segment_for(2, Bytes{words * 8}));
    Mailbox mailbox{member, *transport, Bytes{words * 8}};
    const Rank peer = member.peers()[0];
    if (member.id() == 0) {
      write_message(mailbox.outgoing(peer, 1), member.self(), peer, 1, words);
      mailbox.send(peer, 1, Bytes{words * 8});
      transport.reset();  // at once
    } else {
      mailbox.await(peer, 1);
      EXPECT_EQ(wrong_words(mailbox.incoming(peer, 1), peer, member.self(), 1, words), 0u);
      wait_until([&] { return transport->departed(peer).has_value(); }, "the goodbye");
      EXPECT_THAT(*transport->departed(peer), HasSubstr("has destroyed its transport"));
    }
    member.meet();
  });
}

TEST_F(VerbsTransport, AForkedChildCanDropItsCopy) {
  run(2, [](const Member& member) {
    auto transport = member.connected(Mailbox::segment_for(2, Bytes{8}));
    EXPECT_EQ(status_of(fork_body([&] { transport.reset(); })), 0);
    member.meet();
    Mailbox mailbox{member, *transport, Bytes{8}};
    const Rank peer = member.peers()[0];
    for (std::uint64_t round = 1; round <= 10; ++round) {
      mailbox.raise_flag(peer, round);
      mailbox.await_asleep(peer, round);
    }
    EXPECT_EQ(transport->departed(peer), std::nullopt);
    mailbox.settle();
    member.meet();
  });
}

}  // namespace
}  // namespace capstan::conformance
