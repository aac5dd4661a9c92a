// SPDX-License-Identifier: Apache-2.0

// The promises of transports/transport.hpp to ranks with several threads, for transports whose
// links are not mapped.

#include <gtest/gtest.h>

#include <thread>

#include "tests/conformance/mailbox.hpp"
#include "tests/conformance/worlds.hpp"

namespace capstan::conformance {
namespace {

class ThreadsConformance : public WorldTest {};

INSTANTIATE_TEST_SUITE_P(All, ThreadsConformance, testing::ValuesIn(mirrored(all_worlds())),
                         [](const auto& instance) { return instance.param.name; });

// One thread owns the transport and never wakes peers; another thread does nothing else.
TEST_P(ThreadsConformance, AnotherThreadMayWake) {
  GetParam().run(2, [](const Member& member) {
    const auto transport = member.connected(Mailbox::segment_for(2, Bytes{8}));
    Mailbox mailbox{member, *transport, Bytes{8}};
    const Rank peer = member.peers()[0];
    mailbox.raise_flag(peer, 1);
    mailbox.await(peer, 1);
    std::jthread waker{[&](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        transport->wake(transport->link(peer));
        std::this_thread::yield();
      }
      transport->wake(transport->link(peer));
    }};
    std::uint64_t outgoing = 1;
    for (std::uint64_t round = 2; round <= 3000; ++round) {
      outgoing = round;
      transport->push_from(peer, Bytes{static_cast<std::uint64_t>(peer.value()) * 64}, &outgoing,
                           Bytes{sizeof(outgoing)});
      wait_until([&] { return transport->progress(), mailbox.flag_of(peer) + 1 >= round; },
                 "a flag");
    }
    waker.request_stop();
    waker.join();
    transport->wake(transport->link(peer));  // the last push may have come after its last wake
    mailbox.await(peer, 3000);
    mailbox.settle();
    member.meet();
  });
}

}  // namespace
}  // namespace capstan::conformance
