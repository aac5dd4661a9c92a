// SPDX-License-Identifier: Apache-2.0

// The promises of transports/transport.hpp about pushes, for transports whose links are not mapped.

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "tests/conformance/mailbox.hpp"
#include "tests/conformance/worlds.hpp"
#include "tests/sanitizers.hpp"

namespace capstan::conformance {
namespace {

class LoopbackConformance : public WorldTest {};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LoopbackConformance);
INSTANTIATE_TEST_SUITE_P(All, LoopbackConformance, testing::ValuesIn(mirrored(worlds_to_try())),
                         [](const auto& instance) { return instance.param.name; });

/// Makes progress until all memory that was pushed to `peer` may change.
void await_pushed(Transport& transport, Rank peer) {
  wait_until([&] { return transport.progress(), transport.pushed(peer); }, "pushes to be sent");
}

TEST_P(LoopbackConformance, LinksAreNotMappedAndAlwaysToBeWoken) {
  GetParam().run(2, [](const Member& member) {
    const auto transport = member.connected(Bytes{64});
    const Link& link = transport->link(member.peers()[0]);
    EXPECT_FALSE(link.mapped);
    ASSERT_NE(link.doorbell, nullptr);
    EXPECT_NE(link.doorbell->load(), 0u);
    member.meet();
  });
}

TEST_P(LoopbackConformance, PushFromSendsWhatLiesElsewhere) {
  GetParam().run(2, [](const Member& member) {
    constexpr std::uint64_t most_words = std::uint64_t{3} << 17;
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{most_words * 8}));
    Mailbox mailbox{member, *transport, Bytes{most_words * 8}};
    const Rank peer = member.peers()[0];
    std::vector<std::byte> source(most_words * 8);
    std::uint64_t round = 0;
    for (const std::uint64_t words : {std::uint64_t{1}, std::uint64_t{8}, std::uint64_t{9},
                                      std::uint64_t{700}, std::uint64_t{20'001}, most_words}) {
      ++round;
      write_message(source.data(), member.self(), peer, round, words);
      transport->push_from(peer, mailbox.offset_of(peer, round), source.data(), Bytes{words * 8});
      mailbox.raise_flag(peer, round);
      await_pushed(*transport, peer);
      std::ranges::fill(source, std::byte{0xee});  // must not reach the peer

      mailbox.await(peer, round);
      EXPECT_EQ(wrong_words(mailbox.incoming(peer, round), peer, member.self(), round, words), 0u);
      const std::byte* own = mailbox.outgoing(peer, round);
      EXPECT_TRUE(std::all_of(own, own + words * 8, [](std::byte b) { return b == std::byte{0}; }))
          << "the own segment must stay as it is";
    }
    member.meet();
  });
}

/// The peer receives nothing meanwhile: its data are still here, or partly sent.
TEST_P(LoopbackConformance, DetachedSourcesMayChangeAtOnce) {
  GetParam().run(2, [](const Member& member) {
    constexpr std::uint64_t words = std::uint64_t{2} << 20;  // more than any socket holds
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{words * 8}));
    Mailbox mailbox{member, *transport, Bytes{words * 8}};
    const Rank peer = member.peers()[0];
    mailbox.raise_flag(peer, 1);  // they have met
    mailbox.await(peer, 1);
    mailbox.settle();
    member.meet();
    std::vector<std::byte> source(words * 8);
    for (std::uint64_t round = 2; round <= 5; ++round) {
      if (member.id() == 0) {
        write_message(source.data(), member.self(), peer, round, words);
        transport->push_from(peer, mailbox.offset_of(peer, round), source.data(), Bytes{words * 8});
        if (round % 2 == 0) mailbox.raise_flag(peer, round);  // some of it is under way then
        for (int i = 0; i < 100; ++i) transport->progress();
        transport->detach_sources(peer);
        std::ranges::fill(source, std::byte{0xee});
        if (round % 2 == 1) mailbox.raise_flag(peer, round);
        member.meet();
        mailbox.settle();
      } else {
        member.meet();
        mailbox.await(peer, round);
        EXPECT_EQ(wrong_words(mailbox.incoming(peer, round), peer, member.self(), round, words), 0u)
            << "round " << round;
      }
      member.meet();
    }
    EXPECT_EQ(transport->departed(peer), std::nullopt);
    member.meet();
  });
}

TEST_P(LoopbackConformance, SmallRangesAreTakenAsTheyAre) {
  GetParam().run(2, [](const Member& member) {
    constexpr std::uint64_t places = 40;
    const Bytes slot{places * Transport::snapshot.value()};
    const auto transport = member.connected(Mailbox::segment_for(2, slot));
    Mailbox mailbox{member, *transport, slot};
    const Rank peer = member.peers()[0];
    const auto length_of = [](std::uint64_t i) { return 1 + i * 13 % Transport::snapshot.value(); };
    std::byte* out = mailbox.outgoing(peer, 1);
    for (std::uint64_t i = 0; i < places; ++i) {
      const std::uint64_t at = i * Transport::snapshot.value();
      std::fill_n(out + at, length_of(i), static_cast<std::byte>(i + 1));
      transport->push(peer, mailbox.offset_of(peer, 1) + Bytes{at}, Bytes{length_of(i)});
      std::fill_n(out + at, length_of(i), std::byte{0xee});  // before anything is sent
    }
    mailbox.raise_flag(peer, 1);
    mailbox.await(peer, 1);
    for (std::uint64_t i = 0; i < places; ++i) {
      const std::byte* in = mailbox.incoming(peer, 1) + i * Transport::snapshot.value();
      EXPECT_EQ(std::count(in, in + Transport::snapshot.value(), static_cast<std::byte>(i + 1)),
                static_cast<std::ptrdiff_t>(length_of(i)))
          << "place " << i;
    }
    mailbox.settle();
    member.meet();
  });
}

// A flag that is pushed twice before it is sent must not show the second value early: the data
// pushed between the two would be missed.
TEST_P(LoopbackConformance, AFlagPushedTwiceIsNeverAheadOfItsData) {
  GetParam().run(2, [](const Member& member) {
    const Bytes slot{1 << 16};
    const auto transport = member.connected(Mailbox::segment_for(2, slot));
    Mailbox mailbox{member, *transport, slot};
    const Rank peer = member.peers()[0];
    constexpr std::uint64_t rounds = 200;
    constexpr std::uint64_t words = 1 << 11;  // in each of four parts of the slot, in turn
    std::uint64_t seen = 0;
    const auto look = [&] {
      const std::uint64_t flag = mailbox.flag_of(peer);
      for (; seen < flag; ++seen) {
        const std::uint64_t part = (seen % 4) * words;
        const auto wrong =
            wrong_words(mailbox.incoming(peer, 0) + part * 8, peer, member.self(), seen, words);
        ASSERT_EQ(wrong, 0u) << "of push " << seen;
      }
    };
    for (std::uint64_t i = 0; i < rounds; i += 4) {
      for (std::uint64_t k = i; k < i + 4; ++k) {
        const Bytes part{(k % 4) * words * 8};
        write_message(mailbox.outgoing(peer, 0) + part.value(), member.self(), peer, k, words);
        transport->push(peer, mailbox.offset_of(peer, 0) + part, Bytes{words * 8});
        mailbox.raise_flag(peer, k + 1);
      }
      wait_until(
          [&] {
            transport->progress();
            look();
            return seen >= i + 4 && transport->pushed(peer);
          },
          "four pushes");
      member.meet();
    }
  });
}

/// Adjacent ranges of a slot, pushed one by one, of all sizes and alignments.
struct Piece {
  std::uint64_t offset;
  std::uint64_t length;
};

std::vector<Piece> cut_into_pieces(std::uint64_t size, std::uint64_t seed) {
  constexpr std::array<std::uint64_t, 10> lengths{1, 8, 64, 65, 200, 4096, 13, 70'001, 3, 262'144};
  std::vector<Piece> pieces;
  for (std::uint64_t offset = 0, i = seed; offset < size; ++i) {
    const std::uint64_t length =
        std::min(lengths[(i * 7 + i / 10) % lengths.size()], size - offset);
    pieces.push_back({offset, length});
    offset += length;
  }
  return pieces;
}

std::byte byte_of(std::uint64_t round, std::uint64_t offset) {
  return static_cast<std::byte>(round * 131 + offset * 7 + offset / 256);
}

/// Whether all pieces of a round up to `count` have arrived.
bool holds(const std::byte* place, std::uint64_t round, std::span<const Piece> pieces) {
  return std::ranges::all_of(pieces, [&](const Piece& piece) {
    for (std::uint64_t at = piece.offset; at < piece.offset + piece.length; ++at) {
      if (place[at] != byte_of(round, at)) return false;
    }
    return true;
  });
}

TEST_P(LoopbackConformance, MixedSizesKeepTheirOrder) {
  GetParam().run(3, [](const Member& member) {
    const Bytes slot{1'500'000};
    const auto transport = member.connected(Mailbox::segment_for(3, slot));
    Mailbox mailbox{member, *transport, slot};
    for (std::uint64_t round = 1; round <= 6; ++round) {
      const auto pieces = cut_into_pieces(slot.value(), round);
      for (const Rank peer : member.peers()) {
        std::byte* out = mailbox.outgoing(peer, round);
        for (std::uint64_t at = 0; at < slot.value(); ++at) out[at] = byte_of(round, at);
        for (std::uint64_t i = 0; i < pieces.size(); ++i) {
          const auto [offset, length] = pieces[i];
          transport->push(peer, mailbox.offset_of(peer, round) + Bytes{offset}, Bytes{length});
          mailbox.raise_flag(peer, round << 32 | (i + 1));
        }
      }
      for (const Rank peer : member.peers()) {
        std::uint64_t seen = 0;
        wait_until(
            [&] {
              transport->progress();
              const std::uint64_t flag = mailbox.flag_of(peer);
              const std::uint64_t count = flag >> 32 == round ? flag & 0xffff'ffff : 0;
              const auto fresh = std::span{pieces}.subspan(seen, count - seen);
              EXPECT_TRUE(holds(mailbox.incoming(peer, round), round, fresh));
              return (seen = count) == pieces.size();
            },
            "all pieces");
      }
      mailbox.settle();
      member.meet();
    }
  });
}

// No rank receives before all have filled the buffers between them.
TEST_P(LoopbackConformance, AllSendAtOnceMoreThanFitsOnTheWay) {
  GetParam().run(3, [](const Member& member) {
    constexpr std::uint64_t words = std::uint64_t{sanitized ? 1 : 4} << 20;  // 32 MiB
    const auto transport = member.connected(Mailbox::segment_for(3, Bytes{words * 8}));
    Mailbox mailbox{member, *transport, Bytes{words * 8}};
    mailbox.settle();
    for (const std::uint64_t round : {1, 2}) {
      for (const Rank peer : member.peers()) {
        write_message(mailbox.outgoing(peer, round), member.self(), peer, round, words);
        mailbox.send(peer, round, Bytes{words * 8});
      }
      member.meet();
      for (const Rank peer : member.peers()) {
        mailbox.await_asleep(peer, round);
        EXPECT_EQ(wrong_words(mailbox.incoming(peer, round), peer, member.self(), round, words),
                  0u);
      }
      mailbox.settle();
    }
    member.meet();
  });
}

TEST_P(LoopbackConformance, ARankWithoutAnAddressHasNoLink) {
  GetParam().run(4, [](const Member& member) {  // 0 with 1, and 2 with 3
    const auto transport = member.make(Mailbox::segment_for(4, Bytes{8}));
    const Rank partner{member.id() ^ 1};
    std::vector<Address> addresses = member.exchange(transport->address());
    for (const Rank peer : member.peers()) {
      if (peer != partner) addresses[static_cast<std::size_t>(peer.value())].clear();
    }
    transport->connect(addresses, Deadline::in(patience));
    for (const Rank peer : member.peers()) {
      if (peer == partner) continue;
      EXPECT_EQ(transport->link(peer).segment, nullptr);
      EXPECT_EQ(transport->link(peer).doorbell, nullptr);
      EXPECT_EQ(transport->departed(peer), std::nullopt);
      EXPECT_TRUE(transport->pushed(peer));
      transport->wake(transport->link(peer));
    }
    Mailbox mailbox{member, *transport, Bytes{8}};
    for (std::uint64_t round = 1; round <= 10; ++round) {
      mailbox.raise_flag(partner, round);
      mailbox.await_asleep(partner, round);
    }
    mailbox.settle();
    member.meet();
  });
}

bool is_readable(int fd, std::chrono::milliseconds at_most) {
  pollfd query{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&query, 1, static_cast<int>(at_most.count())) > 0;
}

TEST_P(LoopbackConformance, TheDescriptorSaysThatThereIsSomethingToDo) {
  GetParam().run(2, [](const Member& member) {
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{8}));
    if (transport->descriptor() < 0) return;
    Mailbox mailbox{member, *transport, Bytes{8}};
    const Rank peer = member.peers()[0];
    for (std::uint64_t round = 1; round <= 1000; ++round) {
      if (member.id() == 0) mailbox.raise_flag(peer, round);
      wait_until(
          [&] {
            transport->prepare_to_sleep();
            transport->progress();
            const bool come = mailbox.has_come(peer, round);
            const bool told = come || is_readable(transport->descriptor(), patience);
            EXPECT_TRUE(told) << "in round " << round;
            transport->cancel_sleep();
            return come;
          },
          "a flag");
      if (member.id() == 1) mailbox.raise_flag(peer, round);
    }
    mailbox.settle();
    member.meet();
    wait_until(
        [&] {
          transport->prepare_to_sleep();
          transport->progress();
          const bool quiet = !is_readable(transport->descriptor(), std::chrono::milliseconds{0});
          transport->cancel_sleep();
          return quiet;
        },
        "the descriptor to fall silent");
    member.meet();
  });
}

TEST_P(LoopbackConformance, ASegmentMayBelongToSomebodyElse) {
  GetParam().run(2, [](const Member& member) {
    constexpr std::uint64_t words = 5000;
    const Bytes size = Mailbox::segment_for(2, Bytes{words * 8});
    std::vector<std::uint64_t> memory(rails_segment(size).value() / 8 + 1);
    auto* shared = reinterpret_cast<std::byte*>(memory.data());
    {
      const auto transport = member.make(size, shared);
      EXPECT_EQ(transport->segment().data(), shared);
      EXPECT_EQ(transport->segment().size(), size.value());
      EXPECT_EQ(transport->link(member.self()).segment, shared);
      transport->connect(member.exchange(transport->address()), Deadline::in(patience));
      Mailbox mailbox{member, *transport, Bytes{words * 8}};
      const Rank peer = member.peers()[0];
      write_message(mailbox.outgoing(peer, 1), member.self(), peer, 1, words);
      mailbox.send(peer, 1, Bytes{words * 8});
      mailbox.await(peer, 1);
      EXPECT_EQ(wrong_words(mailbox.incoming(peer, 1), peer, member.self(), 1, words), 0u);
      mailbox.settle();
      member.meet();
    }
    memory[0] = 1;  // still there
    member.meet();
  });
}

TEST_P(LoopbackConformance, NothingIsReadForOneThatIsGone) {
  GetParam().run(2, [](const Member& member) {
    constexpr std::uint64_t words = std::uint64_t{4} << 20;
    auto transport = member.connected(Mailbox::segment_for(2, Bytes{words * 8}));
    Mailbox mailbox{member, *transport, Bytes{words * 8}};
    const Rank peer = member.peers()[0];
    mailbox.raise_flag(peer, 1);
    mailbox.await(peer, 1);
    mailbox.settle();
    member.meet();
    if (member.id() == 1) {
      transport.reset();
      return member.meet();
    }
    for (std::uint64_t round = 2; round <= 4; ++round) {
      mailbox.send(peer, round, Bytes{words * 8});
    }
    wait_until([&] { return transport->progress(), transport->departed(peer).has_value(); },
               "the peer to be missed");
    await_pushed(*transport, peer);
    member.meet();
  });
}

}  // namespace
}  // namespace capstan::conformance
