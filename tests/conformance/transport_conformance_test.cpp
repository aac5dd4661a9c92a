// SPDX-License-Identifier: Apache-2.0

// The promises of transports/transport.hpp, for every transport.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "capstan/error.hpp"
#include "tests/conformance/mailbox.hpp"
#include "tests/conformance/worlds.hpp"
#include "tests/sanitizers.hpp"

namespace capstan::conformance {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

class TransportConformance : public WorldTest {};

INSTANTIATE_TEST_SUITE_P(All, TransportConformance, testing::ValuesIn(worlds_to_try()),
                         [](const auto& instance) { return instance.param.name; });

bool all_zeros(const std::byte* data, std::size_t size) {
  return std::all_of(data, data + size, [](std::byte b) { return b == std::byte{0}; });
}

/// Every rank sends every other a message per round and checks all that it receives.
void exchange_all_to_all(const Member& member, Transport& transport, std::uint64_t rounds,
                         std::uint64_t most_words, bool asleep = false) {
  Mailbox mailbox{member, transport, Bytes{most_words * 8}};
  for (std::uint64_t round = 1; round <= rounds; ++round) {
    const std::uint64_t words = most_words - (round * 7919) % most_words;
    for (const Rank peer : member.peers()) {
      write_message(mailbox.outgoing(peer, round), member.self(), peer, round, words);
      mailbox.send(peer, round, Bytes{words * 8});
    }
    for (const Rank peer : member.peers()) {
      asleep ? mailbox.await_asleep(peer, round) : mailbox.await(peer, round);
      ASSERT_EQ(wrong_words(mailbox.incoming(peer, round), peer, member.self(), round, words), 0u)
          << "rank " << member.id() << " got wrong data from rank " << peer.value() << " in round "
          << round;
    }
  }
  mailbox.settle();
}

void connect_and_exchange(const Member& member, std::uint64_t rounds, std::uint64_t most_words,
                          bool asleep = false) {
  const Bytes segment = Mailbox::segment_for(member.ranks(), Bytes{most_words * 8});
  const auto transport = member.connected(segment);
  exchange_all_to_all(member, *transport, rounds, most_words, asleep);
  member.meet();
}

TEST_P(TransportConformance, SegmentsHaveTheSizeAskedForAndStartAsZeros) {
  GetParam().run(3, [](const Member& member) {
    for (const std::size_t size : {1u, 63u, 4096u, 4097u, (3u << 20) + 5u}) {
      const auto transport = member.connected(Bytes{size});
      ASSERT_EQ(transport->segment().size(), size);
      EXPECT_TRUE(all_zeros(transport->segment().data(), size));
      for (const Rank peer : member.peers()) {
        EXPECT_TRUE(all_zeros(transport->link(peer).segment, size)) << "of rank " << peer.value();
      }
      member.meet();
      std::ranges::fill(transport->segment(), std::byte{0xff});  // must not show in the next one
    }
  });
}

TEST_P(TransportConformance, HasANameAndSurvivesWithoutBeingConnected) {
  GetParam().run(2, [](const Member& member) {
    const auto transport = member.make(Bytes{100});
    EXPECT_FALSE(transport->name().empty());
    transport->segment()[99] = std::byte{7};
  });
}

TEST_P(TransportConformance, RefusesAnImpossibleSegment) {
  GetParam().run(1, [](const Member& member) {
    EXPECT_THROW(member.make(Bytes{0}), InvalidArgument);
    EXPECT_THROW(member.make(Bytes{~std::uint64_t{0}}), InvalidArgument);
  });
}

TEST_P(TransportConformance, RefusesARankThatDoesNotExist) {
  GetParam().run(2, [](const Member& member) {
    const auto transport = member.connected(Bytes{64});
    EXPECT_THROW(transport->link(Rank{2}), InvalidArgument);
    EXPECT_THROW(transport->link(Rank{-1}), InvalidArgument);
    EXPECT_THROW(transport->departed(Rank{2}), InvalidArgument);
    member.meet();
  });
}

TEST_P(TransportConformance, LinkToItselfShowsTheOwnSegment) {
  GetParam().run(2, [](const Member& member) {
    const auto transport = member.connected(Bytes{64});
    transport->segment()[63] = std::byte{42};
    transport->push(member.self(), Bytes{63}, Bytes{1});
    EXPECT_EQ(transport->link(member.self()).segment[63], std::byte{42});
    transport->wake(transport->link(member.self()));
    EXPECT_EQ(transport->departed(member.self()), std::nullopt);
    member.meet();
  });
}

TEST_P(TransportConformance, LargeSegmentsCostNothingUntilTouched) {
  GetParam().run(2, [](const Member& member) {
    const std::uint64_t huge = std::uint64_t{1} << 36;
    const auto transport = member.connected(Bytes{huge});
    transport->segment()[huge - 1] = std::byte{5};
    const Rank peer = member.peers()[0];
    transport->push(peer, Bytes{huge - 1}, Bytes{1});
    transport->wake(transport->link(peer));
    member.meet();
    wait_until(
        [&] {
          transport->progress();
          return transport->link(peer).segment[huge - 1] == std::byte{5} && transport->pushed(peer);
        },
        "the last byte");
    member.meet();
  });
}

TEST_P(TransportConformance, DataIsThereWhenItsFlagIs) {
  for (const int ranks : {1, 2, 3, 5, 8}) {
    SCOPED_TRACE(ranks);
    GetParam().run(ranks, [](const Member& member) {
      connect_and_exchange(member, sanitized ? 50 : 100, 61);
    });
  }
}

TEST_P(TransportConformance, WorksWithMoreRanksThanCores) {
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int ranks = std::clamp(3 * cores, 12, 24);
  GetParam().run(ranks, [](const Member& member) { connect_and_exchange(member, 20, 33, true); });
}

TEST_P(TransportConformance, MovesLargeMessages) {
  GetParam().run(3, [](const Member& member) { connect_and_exchange(member, 3, 500'003); });
}

// No rank answers, so that a transport in which pushes overtake each other is caught.
TEST_P(TransportConformance, UnansweredPushesKeepTheirOrder) {
  GetParam().run(2, [](const Member& member) {
    constexpr std::uint64_t last = 20'000;
    pin_to_core(member);
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{8}));
    Mailbox mailbox{member, *transport, Bytes{8}};
    const Rank peer = member.peers()[0];
    const auto first_word = [](const std::byte* place) {
      return std::atomic_ref<std::uint64_t>{
          *reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(place))};
    };
    // Each word has two equal halves, so that a torn word is noticed.
    for (std::uint64_t i = 1; member.id() == 0 && i <= last; ++i) {
      first_word(mailbox.outgoing(peer, 0)).store(i << 32 | i, std::memory_order_relaxed);
      transport->push(peer, mailbox.offset_of(peer, 0), Bytes{8});
      mailbox.raise_flag(peer, i);
    }
    mailbox.settle();
    while (member.id() == 1) {
      transport->progress();
      const std::uint64_t flag = mailbox.flag_of(peer);
      const std::uint64_t word =
          first_word(mailbox.incoming(peer, 0)).load(std::memory_order_relaxed);
      ASSERT_EQ(word >> 32, word & 0xffff'ffff);
      ASSERT_GE(word >> 32, flag);
      if (flag == last) break;
      std::this_thread::yield();
    }
    member.meet();
  });
}

TEST_P(TransportConformance, NoWakeUpIsLostAmongMany) {
  GetParam().run(5, [](const Member& member) { connect_and_exchange(member, 400, 5, true); });
}

TEST_P(TransportConformance, OneThatLeavesEarlyDisturbsNobody) {
  GetParam().run(4, [](const Member& member) {
    auto transport = member.connected(Mailbox::segment_for(4, Bytes{8}));
    Mailbox mailbox{member, *transport, Bytes{8}};
    const Rank leaver{3};
    for (const Rank peer : member.peers()) mailbox.raise_flag(peer, 1);
    for (const Rank peer : member.peers()) mailbox.await(peer, 1);
    mailbox.settle();
    if (member.self() == leaver) {
      transport.reset();
      return member.meet();
    }
    wait_until([&] { return transport->departed(leaver).has_value(); }, "rank 3 to be missed");
    EXPECT_EQ(mailbox.flag_of(leaver), 1u) << "what it published must stay readable";
    transport->wake(transport->link(leaver));
    for (std::uint64_t round = 2; round <= 100; ++round) {
      for (const Rank peer : member.peers()) mailbox.raise_flag(peer, round);
      for (const Rank peer : member.peers()) {
        if (peer == leaver) continue;
        mailbox.await_asleep(peer, round);
        EXPECT_EQ(transport->departed(peer), std::nullopt);
      }
    }
    mailbox.settle();
    member.meet();
  });
}

TEST_P(TransportConformance, NamesAProcessThatWasKilled) {
  if (!GetParam().processes) GTEST_SKIP() << "its ranks share their fate";
  if (GetParam().name == "ofi_shm") {
    GTEST_SKIP() << "libfabric's shm leaves a file in /dev/shm when a process is killed";
  }
  const auto statuses = run_processes(3, GetParam().new_maker(), [](const Member& member) {
    const auto transport = member.connected(Mailbox::segment_for(3, Bytes{8}));
    Mailbox mailbox{member, *transport, Bytes{8}};
    const Rank victim{2};
    const auto pid = static_cast<std::uint64_t>(::getpid());
    for (const Rank peer : member.peers()) mailbox.raise_flag(peer, pid);
    for (const Rank peer : member.peers()) mailbox.await(peer, 1);
    mailbox.settle();
    for (const Rank peer : member.peers()) EXPECT_EQ(transport->departed(peer), std::nullopt);
    member.meet();
    if (member.self() == victim) ::raise(SIGKILL);

    std::optional<std::string> reason;
    wait_until([&] { return (reason = transport->departed(victim)).has_value(); }, "the death");
    if (transport->link(victim).mapped)
      EXPECT_THAT(*reason, HasSubstr(fmt::format("process {} has died", mailbox.flag_of(victim))));
    else  // its process may be out of sight
      EXPECT_THAT(*reason, AnyOf(HasSubstr("rank 2"), HasSubstr("has died")));
    const Rank other{1 - member.id()};
    EXPECT_EQ(transport->departed(other), std::nullopt);
    transport->wake(transport->link(victim));
    mailbox.raise_flag(other, std::uint64_t{1} << 40);
    mailbox.await_asleep(other, std::uint64_t{1} << 40);
    mailbox.settle();
  });
  EXPECT_EQ(statuses[0], 0) << describe_status(statuses[0]);
  EXPECT_EQ(statuses[2], SIGKILL) << describe_status(statuses[2]);
}

TEST_P(TransportConformance, NamesAProcessThatWasKilledBeforeItSentAnything) {
  if (!GetParam().processes) GTEST_SKIP() << "its ranks share their fate";
  if (GetParam().name == "ofi_shm") {
    GTEST_SKIP() << "libfabric's shm leaves a file in /dev/shm when a process is killed";
  }
  const auto statuses = run_processes(2, GetParam().new_maker(), [](const Member& member) {
    const auto transport = member.connected(Bytes{64});
    member.meet();
    if (member.id() == 1) ::raise(SIGKILL);
    wait_until(
        [&] {
          transport->watch(Rank{1});
          transport->progress();
          return transport->departed(Rank{1}).has_value();
        },
        "the death");
  });
  EXPECT_EQ(statuses[0], 0) << describe_status(statuses[0]);
}

std::string failure_to_connect(const Member& member, Transport& transport,
                               std::chrono::milliseconds time) {
  const std::vector<Address> addresses = member.exchange(transport.address());
  try {
    transport.connect(addresses, Deadline::in(time));
  } catch (const BootstrapError& error) {
    return error.what();
  }
  return "nothing: it connected";
}

TEST_P(TransportConformance, NamesThoseWhoDoNotConnectInTime) {
  if (!GetParam().processes || GetParam().lazy) GTEST_SKIP() << "connect() waits for nobody";
  for (const int patient : {0, 1}) {
    SCOPED_TRACE(patient);
    GetParam().run(2, [&](const Member& member) {
      const auto transport = member.make(Bytes{64});
      if (member.id() != patient) {
        member.exchange(transport->address());
      } else {
        EXPECT_THAT(failure_to_connect(member, *transport, 150ms),
                    AllOf(HasSubstr(fmt::format("rank {}: connect", patient)),
                          HasSubstr(fmt::format("rank {} (", 1 - patient)), HasSubstr("alive")));
      }
      member.meet();
    });
  }
}

TEST_P(TransportConformance, NamesAllThatAreMissing) {
  if (!GetParam().processes || GetParam().lazy) GTEST_SKIP() << "connect() waits for nobody";
  GetParam().run(4, [](const Member& member) {
    const auto transport = member.make(Bytes{64});
    if (member.id() >= 2) {
      member.exchange(transport->address());
    } else {
      const std::string message = failure_to_connect(member, *transport, 300ms);
      if (member.id() == 0) {
        EXPECT_THAT(message, AllOf(HasSubstr("rank 2 ("), HasSubstr("rank 3 (")));
      }
    }
    member.meet();
  });
}

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
}

std::uint64_t mapped_pages() {
  std::uint64_t pages = 0;
  std::ifstream{"/proc/self/statm"} >> pages;
  return pages;
}

TEST_P(TransportConformance, LeavesNothingBehind) {
  // Long blocks go back to the system when freed. Otherwise the heap keeps those below its top, and
  // each thread may have a heap of its own.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  ::mallopt(M_ARENA_MAX, 1);
  GetParam().run(3, [](const Member& member) {
    std::ptrdiff_t descriptors = 0;
    std::uint64_t pages = 0;
    constexpr std::uint64_t size = 16 << 20;
    for (int round = 0; round < 6; ++round) {
      connect_and_exchange(member, 3, size / 8 / 16);
      {
        const auto never_connected = member.make(Bytes{size});
      }
      member.meet();
      if (member.id() == 0 && round < 2) {  // the first rounds warm up allocator and logger
        descriptors = open_descriptors();
        pages = mapped_pages();
      } else if (member.id() == 0) {
        EXPECT_EQ(open_descriptors(), descriptors);
        // Room for what stays allocated once. Four leaking rounds need much more. The thread
        // sanitizer keeps a record of each word that is published, in memory of its own.
        if (!thread_sanitized) {
          EXPECT_LT(mapped_pages(), pages + 2 * size / 4096);
        }
      }
      member.meet();
    }
  });
}

}  // namespace
}  // namespace capstan::conformance
