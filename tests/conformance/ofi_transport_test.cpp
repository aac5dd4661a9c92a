// SPDX-License-Identifier: Apache-2.0

// Promises of the transport over libfabric beyond transports/transport.hpp.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <map>

#include "capstan/error.hpp"
#include "tests/conformance/mailbox.hpp"
#include "tests/conformance/worlds.hpp"

namespace capstan::conformance {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class OfiTransport : public testing::Test {
 protected:
  void SetUp() override {
    if (!ofi_is_built_in()) GTEST_SKIP() << "this build has no libfabric";
  }
};

OfiOptions tcp(OfiPushes pushes = OfiPushes::automatic) {
  OfiOptions options;
  options.key = test_key();
  options.provider = "tcp";
  options.pushes = pushes;
  return options;
}

template <class E>
std::string refusal(const OfiOptions& options) {
  try {
    make_ofi_transport(Rank{3}, 4, Bytes{64}, options);
  } catch (const E& error) {
    return error.what();
  }
  return "nothing: it was made";
}

TEST_F(OfiTransport, AProviderThatIsNotThereIsAnsweredByThoseThatAre) {
  run_alone([] {
    OfiOptions options;
    options.provider = "vrebs";
    EXPECT_THAT(refusal<InvalidArgument>(options),
                AllOf(HasSubstr("rank 3: ofi:"), HasSubstr("\"vrebs\""), HasSubstr("tcp;ofi_rxm")));
    options = tcp();
    options.domain = "eth-nowhere";
    EXPECT_THAT(refusal<InvalidArgument>(options),
                AllOf(HasSubstr("\"eth-nowhere\""), HasSubstr("tcp;ofi_rxm on ")));
  });
}

TEST_F(OfiTransport, TheReportSaysWhatThereIsAndWhatIsChosen) {
  run_alone([] {
    const OfiReport report = ofi_report();
    ASSERT_TRUE(report.available) << report.reason;
    EXPECT_FALSE(report.version.empty());
    ASSERT_FALSE(report.found.empty());
    EXPECT_THAT(report.found[0], HasSubstr(report.chosen));
    EXPECT_THAT(report.reason, HasSubstr(report.chosen));

    OfiOptions options;
    options.provider = "vrebs";
    const OfiReport none = ofi_report(options);
    EXPECT_FALSE(none.available);
    EXPECT_THAT(none.chosen, testing::IsEmpty());
    EXPECT_THAT(none.reason, HasSubstr("vrebs"));
    EXPECT_EQ(none.found.size(), report.found.size());
  });
}

TEST_F(OfiTransport, LoadingLibfabricLeavesSignalHandlersAlone) {
  run_alone([] {
    // A shell that starts the tests in the background has SIGINT ignored.
    const auto handlers = [] {
      std::map<int, void (*)(int)> found;
      for (const int number : {SIGSEGV, SIGBUS, SIGABRT, SIGINT, SIGTERM}) {
        struct sigaction action{};
        EXPECT_EQ(::sigaction(number, nullptr, &action), 0);
        found[number] = action.sa_handler;
      }
      return found;
    };
    const auto before = handlers();
    ASSERT_TRUE(ofi_report().available);
    EXPECT_EQ(handlers(), before);
  });
}

TEST_F(OfiTransport, AnAddressStaysSmallHoweverManyRanksThereAre) {
  run_alone([] {
    for (const char* provider : {"tcp", "shm"}) {
      OfiOptions options;
      options.provider = provider;
      const auto transport = make_ofi_transport(Rank{0}, 900, Bytes{64}, options);
      EXPECT_LE(transport->address().size(), 400u) << provider;
    }
  });
}

std::string failure_of(Transport& transport, const std::vector<Address>& addresses) {
  try {
    transport.connect(addresses, Deadline::in(patience));
  } catch (const BootstrapError& error) {
    return error.what();
  }
  return "nothing: it connected";
}

TEST_F(OfiTransport, RefusesAddressesThatDoNotFit) {
  run_alone([] {
    const auto other = make_ofi_transport(Rank{1}, 2, Bytes{128}, tcp());
    OfiOptions shm;
    shm.provider = "shm";
    const auto stranger = make_ofi_transport(Rank{1}, 2, Bytes{64}, shm);
    const auto attempt = [](const Address& address) {
      const auto transport = make_ofi_transport(Rank{0}, 2, Bytes{64}, tcp());
      return failure_of(*transport, {transport->address(), address});
    };
    EXPECT_THAT(attempt(Address(100)), AllOf(HasSubstr("rank 0: connect: rank 1"),
                                             HasSubstr("not made by the ofi transport")));
    EXPECT_THAT(attempt(other->address()), AllOf(HasSubstr("128 bytes"), HasSubstr("64")));
    EXPECT_THAT(attempt(stranger->address()), AllOf(HasSubstr("shm"), HasSubstr("tcp;ofi_rxm")));
  });
}

// Two ranks that know each other's addresses, but not the same key, do not take each other in.
TEST_F(OfiTransport, DoesNotTrustAPeerWithoutTheKey) {
  const auto statuses = run_processes(
      2,
      [](const Member& member, Bytes segment, std::byte*) {
        OfiOptions options = tcp();
        if (member.id() == 1) options.key = JobKey::random();
        return make_ofi_transport(member.self(), member.ranks(), segment, options);
      },
      [](const Member& member) {
        const auto transport = member.make(Bytes{64});
        const std::vector<Address> addresses = member.exchange(transport->address());
        try {
          transport->connect(addresses, Deadline::in(std::chrono::milliseconds{1500}));
          ADD_FAILURE() << "rank " << member.id() << " must not connect";
        } catch (const BootstrapError& error) {
          EXPECT_THAT(error.what(), HasSubstr(fmt::format("rank {} (", 1 - member.id())));
        }
        member.meet();
      });
  EXPECT_EQ(statuses[0], 0) << describe_status(statuses[0]);
  EXPECT_EQ(statuses[1], 0) << describe_status(statuses[1]);
}

TEST_F(OfiTransport, RefusesToPushWhatIsNotInTheSegment) {
  const World world = ofi_world("ofi", "tcp", OfiPushes::automatic);
  world.run(2, [](const Member& member) {
    const auto transport = member.connected(Bytes{64});
    const Rank peer = member.peers()[0];
    EXPECT_THROW(transport->push(peer, Bytes{60}, Bytes{5}), InvalidArgument);
    EXPECT_THROW(transport->push(peer, Bytes{~std::uint64_t{0}}, Bytes{2}), InvalidArgument);
    EXPECT_THROW(transport->connect({}, Deadline::in(patience)), InvalidArgument);
    member.meet();
  });
}

// The other rank is stopped while the first sends far more than a window of frames, and then
// killed.
TEST_F(OfiTransport, APeerThatIsStoppedAndKilledIsNamedInBoundedTime) {
  for (const OfiPushes pushes : {OfiPushes::write, OfiPushes::messages}) {
    const World world = ofi_world("ofi", "tcp", pushes);
    const auto statuses = run_processes(2, world.new_maker(), [](const Member& member) {
      constexpr std::uint64_t words = 1 << 17;
      const auto transport = member.connected(Mailbox::segment_for(2, Bytes{words * 8}));
      Mailbox mailbox{member, *transport, Bytes{words * 8}};
      const Rank peer = member.peers()[0];
      const auto pid = static_cast<std::uint64_t>(::getpid());
      mailbox.raise_flag(peer, pid);
      mailbox.await(peer, 1);
      mailbox.settle();
      member.meet();
      if (member.id() == 1) {
        ::raise(SIGSTOP);
        return;
      }
      const auto victim = static_cast<pid_t>(mailbox.flag_of(peer));
      for (std::uint64_t round = pid; round < pid + 500; ++round) {
        mailbox.send(peer, round, Bytes{round % 5 == 0 ? words * 8 : 512});
        transport->progress();
      }
      EXPECT_EQ(transport->departed(peer), std::nullopt) << "it is only stopped";
      ::kill(victim, SIGKILL);
      std::optional<std::string> reason;
      wait_until([&] { return transport->progress(), (reason = transport->departed(peer)); },
                 "the death");
      EXPECT_THAT(*reason, AllOf(HasSubstr("rank 1"), HasSubstr(fmt::format("{}", victim)),
                                 HasSubstr("died")));
      wait_until([&] { return transport->progress(), transport->pushed(peer); }, "sources");
    });
    EXPECT_EQ(statuses[0], 0) << describe_status(statuses[0]);
    EXPECT_EQ(statuses[1], SIGKILL) << describe_status(statuses[1]);
  }
}

TEST_F(OfiTransport, AForkedChildMayDropItsCopy) {
  const World world = ofi_world("ofi", "tcp", OfiPushes::automatic);
  world.run(2, [](const Member& member) {
    auto transport = member.connected(Mailbox::segment_for(2, Bytes{8}));
    Mailbox mailbox{member, *transport, Bytes{8}};
    const Rank peer = member.peers()[0];
    mailbox.raise_flag(peer, 1);
    mailbox.await(peer, 1);
    member.meet();
    const pid_t child = ::fork();
    if (child == 0) {
      transport.reset();
      ::_exit(0);
    }
    EXPECT_EQ(status_of(child), 0);
    for (std::uint64_t round = 2; round < 50; ++round) {
      mailbox.raise_flag(peer, round);
      mailbox.await_asleep(peer, round);
      EXPECT_EQ(transport->departed(peer), std::nullopt);
    }
    mailbox.settle();
    member.meet();
  });
}

}  // namespace
}  // namespace capstan::conformance
