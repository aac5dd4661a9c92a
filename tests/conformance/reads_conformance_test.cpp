// SPDX-License-Identifier: Apache-2.0

// The promises of transports whose ranks read memory that peers expose.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/conformance/exposed.hpp"
#include "tests/conformance/mailbox.hpp"
#include "tests/conformance/worlds.hpp"

namespace capstan::conformance {
namespace {

using testing::HasSubstr;
using Buffer = std::vector<std::byte>;

class Reads : public WorldTest {
 protected:
  static void run(const Body& body) { GetParam().run(2, body); }
};

INSTANTIATE_TEST_SUITE_P(All, Reads, testing::ValuesIn(reading_worlds()),
                         [](const auto& test) { return test.param.name; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Reads);  // a build may have no such transport

/// The message of `from` to `to`: no two rounds have alike words.
Buffer content(Rank from, Rank to, std::uint64_t round, std::size_t size) {
  Buffer words((size + 7) / 8 * 8);
  write_message(words.data(), from, to, round, words.size() / 8);
  words.resize(size);
  return words;
}

/// Faster than a matcher.
bool all_are(std::span<const std::byte> bytes, std::uint8_t value) {
  return std::ranges::all_of(bytes, [&](std::byte one) { return one == std::byte{value}; });
}

std::unique_ptr<ExposedMemory> expose(Transport& transport, Rank peer, const Buffer& source) {
  auto exposed = transport.expose(peer, source.data(), Bytes{source.size()}, MemoryKind::host);
  if (!exposed) throw std::runtime_error("the memory cannot be exposed");
  return exposed;
}

std::shared_ptr<RemoteRead> start(Transport& transport, Rank peer, const Remote& theirs,
                                  std::span<std::byte> target) {
  auto read = transport.start_read(peer, theirs.address, theirs.key, target.data(),
                                   Bytes{target.size()}, MemoryKind::host);
  if (!read) throw std::runtime_error("the memory cannot be read into");
  return read;
}

/// One byte, not whole words, more than a piece of any transport; at odd addresses.
TEST_P(Reads, WhatAPeerExposes) {
  run([](const Member& member) {
    const auto transport = member.connected(Bytes{4096});
    const Rank peer = member.peers()[0];
    for (const std::size_t size : {1, 8, 1001, 65536, 65537, 3'000'003}) {
      const Buffer source = content(member.self(), peer, size, size);
      Buffer target(size + 2, std::byte{0xee});
      const auto exposed = expose(*transport, peer, source);
      const Remote theirs = exchange_exposed(member, *exposed)[peer.value()];
      const auto inside = std::span{target}.subspan(1, size);
      const auto read = start(*transport, peer, theirs, inside);
      await_end(*transport, *read);
      EXPECT_FALSE(read->failed);
      EXPECT_TRUE(std::ranges::equal(inside, content(peer, member.self(), size, size))) << size;
      EXPECT_EQ(target.front(), std::byte{0xee});
      EXPECT_EQ(target.back(), std::byte{0xee});
      meet_and_answer(member, *transport);
    }
    EXPECT_EQ(transport->departed(peer), std::nullopt);
    meet_and_answer(member, *transport);
  });
}

TEST_P(Reads, SeveralAtOnceAndPartsOfOneExposure) {
  run([](const Member& member) {
    const auto transport = member.connected(Bytes{4096});
    const Rank peer = member.peers()[0];
    constexpr std::size_t parts = 30, most = 200'000;
    const Buffer source = content(member.self(), peer, 1, parts * most);
    Buffer target(source.size(), std::byte{0xee});
    const auto exposed = expose(*transport, peer, source);
    const Remote theirs = exchange_exposed(member, *exposed)[peer.value()];
    std::vector<std::shared_ptr<RemoteRead>> reads;
    for (std::size_t i = 0; i < parts; ++i)
      reads.push_back(start(*transport, peer, {theirs.address + i * most, theirs.key},
                            std::span{target}.subspan(i * most, most - i)));
    for (const auto& read : reads) await_end(*transport, *read);
    const Buffer expected = content(peer, member.self(), 1, source.size());
    for (std::size_t i = 0; i < parts; ++i) {
      const auto got = std::span{target}.subspan(i * most, most - i);
      EXPECT_TRUE(std::ranges::equal(got, std::span{expected}.subspan(i * most, most - i))) << i;
      EXPECT_TRUE(all_are(std::span{target}.subspan((i + 1) * most - i, i), 0xee));
    }
    meet_and_answer(member, *transport);
  });
}

/// While data are pushed in both directions, too.
TEST_P(Reads, BesidePushes) {
  run([](const Member& member) {
    constexpr std::uint64_t words = 1 << 15;
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{words * 8}));
    Mailbox mailbox{member, *transport, Bytes{words * 8}};
    const Rank peer = member.peers()[0];
    const Buffer source = content(member.self(), peer, 99, 1'000'001);
    const auto exposed = expose(*transport, peer, source);
    const Remote theirs = exchange_exposed(member, *exposed)[peer.value()];
    for (std::uint64_t round = 1; round <= 10; ++round) {
      Buffer target(source.size());
      const auto read = start(*transport, peer, theirs, target);
      write_message(mailbox.outgoing(peer, round), member.self(), peer, round, words);
      mailbox.send(peer, round, Bytes{words * 8});
      mailbox.await(peer, round);
      EXPECT_EQ(wrong_words(mailbox.incoming(peer, round), peer, member.self(), round, words), 0u);
      await_end(*transport, *read);
      EXPECT_EQ(target, content(peer, member.self(), 99, source.size())) << "in round " << round;
      mailbox.settle();
    }
    meet_and_answer(member, *transport);
  });
}

TEST_P(Reads, EndReadsReturnsWhenNothingIsWrittenAnyMore) {
  run([](const Member& member) {
    const auto transport = member.connected(Bytes{4096});
    const Rank peer = member.peers()[0];
    const Buffer source(20 << 20, std::byte{1});
    Buffer target(source.size());
    const auto exposed = expose(*transport, peer, source);
    const Remote theirs = exchange_exposed(member, *exposed)[peer.value()];
    const auto read = start(*transport, peer, theirs, target);
    transport->end_reads(peer);
    EXPECT_FALSE(read->under_way());
    const Buffer then = target;
    meet_and_answer(member, *transport);
    EXPECT_EQ(target, then);
  });
}

TEST_P(Reads, WhatIsRevokedFailAndTheirOwnerCountsAsLost) {
  run([](const Member& member) {
    const auto transport = member.connected(Bytes{4096});
    const Rank peer = member.peers()[0];
    const Buffer source(1 << 20);
    Buffer target(source.size(), std::byte{0xee});
    const auto exposed = expose(*transport, peer, source);
    const Remote theirs = exchange_exposed(member, *exposed)[peer.value()];
    if (member.id() == 0) exposed->revoke();
    meet_and_answer(member, *transport);
    if (member.id() == 1) {
      const auto read = start(*transport, peer, theirs, target);
      await_end(*transport, *read);
      EXPECT_TRUE(read->failed);
      EXPECT_TRUE(all_are(target, 0xee));
      std::optional<std::string> reason;
      wait_until(
          [&] {
            transport->progress();
            return (reason = transport->departed(peer)).has_value();
          },
          "the loss of the peer");
      EXPECT_THAT(*reason, HasSubstr("rank 0"));
      const auto second = start(*transport, peer, theirs, target);
      await_end(*transport, *second);
      EXPECT_TRUE(second->failed) << "it begins when the peer is lost";
      transport->end_reads(peer);
    }
    meet_and_answer(member, *transport);
  });
}

/// Rank 0 reads from rank 1, which does `what` before it answers. Rank 0 continues with `then`.
void read_from_one_that(const std::function<void(const Member&, Transport&)>& what,
                        const std::function<void(Transport&, pid_t, RemoteRead&, Buffer&)>& then,
                        int status_of_one) {
  const auto maker = WorldTest::GetParam().new_maker();
  const auto statuses = run_processes(2, maker, [&](const Member& member) {
    const auto transport = member.connected(Bytes{4096});
    const Buffer source(20 << 20, std::byte{1});
    Buffer target(source.size(), std::byte{0xee});
    const Rank peer = member.peers()[0];
    const auto exposed = expose(*transport, peer, source);
    const Remote theirs = exchange_exposed(member, *exposed)[peer.value()];
    const auto pid = static_cast<std::uint32_t>(::getpid());
    const auto bytes = std::as_bytes(std::span{&pid, 1});
    const auto pids = member.exchange({bytes.begin(), bytes.end()});
    if (member.id() == 1) return what(member, *transport);
    pid_t one = 0;
    std::memcpy(&one, pids[1].data(), sizeof(one));
    const auto read = start(*transport, peer, theirs, target);
    then(*transport, one, *read, target);
  });
  EXPECT_EQ(statuses[0], 0) << describe_status(statuses[0]);
  EXPECT_EQ(statuses[1], status_of_one) << describe_status(statuses[1]);
}

void stop(const Member&, Transport&) {
  ::raise(SIGSTOP);
}

TEST_P(Reads, FailWithTheirPeer) {
  const auto die = [](const Member&, Transport&) { ::raise(SIGKILL); };
  const auto read_on = [](Transport& transport, pid_t, RemoteRead& read, Buffer&) {
    wait_until(
        [&] {
          transport.progress();
          static_cast<void>(transport.departed(Rank{1}));
          return !read.under_way();
        },
        "the end of a read");
    wait_until([&] { return transport.departed(Rank{1}).has_value(); }, "the loss of the peer");
    transport.end_reads(Rank{1});
  };
  read_from_one_that(die, read_on, SIGKILL);
}

TEST_P(Reads, EndInBoundedTimeWhenThePeerDies) {
  const auto kill_and_end = [](Transport& transport, pid_t one, RemoteRead& read, Buffer&) {
    transport.progress();
    ::kill(one, SIGKILL);
    transport.end_reads(Rank{1});
    EXPECT_FALSE(read.under_way());
    wait_until([&] { return transport.departed(Rank{1}).has_value(); }, "the loss of the peer");
  };
  read_from_one_that(stop, kill_and_end, SIGKILL);
}

TEST_P(Reads, FailWhenThePeerDiesInTheMiddle) {
  const auto answer_and_die = [](const Member&, Transport& transport) {
    const Deadline answering = Deadline::in(std::chrono::milliseconds{50});
    while (!answering.expired()) transport.progress();
    ::raise(SIGKILL);
  };
  const auto read_what_came = [](Transport& transport, pid_t, RemoteRead& read, Buffer&) {
    wait_until([&] { return transport.departed(Rank{1}).has_value(); }, "the loss of the peer");
    await_end(transport, read);
    transport.end_reads(Rank{1});
  };
  read_from_one_that(answer_and_die, read_what_came, SIGKILL);
}

/// Otherwise the signal to continue could come before the process has stopped, and be lost.
void await_stop(pid_t process) {
  const auto is_stopped = [process] {
    std::ifstream file{"/proc/" + std::to_string(process) + "/stat"};
    const std::string text{std::istreambuf_iterator<char>{file}, {}};
    const auto name_end = text.rfind(") ");
    return name_end != std::string::npos && text[name_end + 2] == 'T';
  };
  wait_until(is_stopped, "the stop of a process");
}

/// A peer that answers later must not write into memory that its owner has back.
TEST_P(Reads, EndForGoodWhenThePeerIsStopped) {
  const auto stop_and_answer = [](const Member&, Transport& transport) {
    ::raise(SIGSTOP);
    const Deadline answering = Deadline::in(std::chrono::seconds{1});
    while (!answering.expired()) transport.progress();
  };
  const auto end_and_look = [](Transport& transport, pid_t one, RemoteRead& read, Buffer& target) {
    await_stop(one);
    for (int i = 0; i < 100; ++i) transport.progress();
    transport.end_reads(Rank{1});
    EXPECT_FALSE(read.under_way());
    std::ranges::fill(target, std::byte{0xdd});
    const Deadline looking = Deadline::in(std::chrono::seconds{2});
    while (!looking.expired()) {
      ::kill(one, SIGCONT);
      transport.progress();
      static_cast<void>(transport.departed(Rank{1}));
    }
    EXPECT_TRUE(all_are(target, 0xdd));
  };
  read_from_one_that(stop_and_answer, end_and_look, 0);
}

TEST_P(Reads, OfWhatWasNeverExposedFail) {
  run([](const Member& member) {
    const auto transport = member.connected(Bytes{4096});
    const Rank peer = member.peers()[0];
    Buffer target(100, std::byte{0xee});
    if (member.id() == 1) {
      const auto read = start(*transport, peer, {4096, 4711}, target);
      await_end(*transport, *read);
      EXPECT_TRUE(read->failed);
      EXPECT_TRUE(all_are(target, 0xee));
    }
    meet_and_answer(member, *transport);
  });
}

}  // namespace
}  // namespace capstan::conformance
