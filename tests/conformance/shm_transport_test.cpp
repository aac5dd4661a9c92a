// SPDX-License-Identifier: Apache-2.0

// The descriptors and memory that the shared-memory transport leaves, and who can access them.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <fstream>
#include <sstream>

#include "capstan/error.hpp"
#include "tests/conformance/shm_world.hpp"
#include "transports/shm/memfd.hpp"

namespace capstan::conformance {
namespace {

TEST(ShmTransport, ListensOnlyDuringStartUp) {
  shm_world().run(2, [](const Member& member) {
    const auto is_listed = [](const Address& address) {
      std::ifstream file{"/proc/net/unix"};
      const std::string text = (std::ostringstream{} << file.rdbuf()).str();
      return text.find(decoded(address).socket()) != std::string::npos;
    };
    const auto transport = member.make(small);
    const auto addresses = member.exchange(transport->address());
    for (const Address& address : addresses) EXPECT_TRUE(is_listed(address));
    member.meet();
    transport->connect(addresses, Deadline::in(patience));
    member.meet();
    for (const Address& address : addresses) EXPECT_FALSE(is_listed(address));
    auto unconnected = member.make(small);
    const Address address = unconnected->address();
    unconnected.reset();
    EXPECT_FALSE(is_listed(address));
    member.meet();
  });
}

TEST(ShmTransport, PeersCanReadASegmentButNotWriteIt) {
  shm_world().run(2, [](const Member& member) {
    const auto transport = member.connected(small);
    const std::byte* theirs = transport->link(member.peers()[0]).segment;
    const FileDescriptor zeros{::open("/dev/zero", O_RDONLY | O_CLOEXEC)};
    EXPECT_EQ(::read(zeros.get(), const_cast<std::byte*>(theirs), 1), -1);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(::read(zeros.get(), transport->segment().data(), 1), 1);
    member.meet();
  });
}

TEST(ShmTransport, LinesAreTakenFromTheSameMemory) {
  shm_world().run(2, [](const Member& member) {
    const auto transport = member.connected(small);
    const Link& link = transport->link(member.peers()[0]);
    transport->segment()[7] = std::byte{9};
    member.meet();
    EXPECT_EQ(link.segment[7], std::byte{9});
    EXPECT_NE(link.writable_alias, link.segment);
    EXPECT_EQ(link.writable_alias[7], std::byte{9});
    member.meet();
  });
}

TEST(ShmTransport, SegmentsAreAlignedForHugePages) {
  shm_world().run(2, [](const Member& member) {
    const auto transport = member.connected(Bytes{5 << 20});
    for (const Rank rank : {Rank{0}, Rank{1}}) {
      const auto address = reinterpret_cast<std::uintptr_t>(transport->link(rank).segment);
      EXPECT_EQ(address % (2 << 20), 0u);
    }
    member.meet();
  });
}

TEST(Memfd, CannotBeResizedByOthers) {
  const shm::Memfd memory = shm::Memfd::create(Bytes{4096});
  EXPECT_EQ(shm::unsafe_to_map(memory.fd.get(), Bytes{4096}), std::nullopt);
  EXPECT_NE(::ftruncate(memory.fd.get(), 0), 0);
  EXPECT_NE(::ftruncate(memory.fd.get(), 8192), 0);
  memory.mapping.data()[4095] = std::byte{9};
  const auto view = Mapping::shared(memory.fd.get(), Bytes{4096}, PROT_READ);
  EXPECT_EQ(view.data()[4095], std::byte{9});
}

// --- Programs that fork ---

TEST(ShmTransport, AForkedChildCanDropItsCopy) {
  shm_world().run(2, [](const Member& member) {
    auto transport = member.make(small);
    const auto drop_copy = [&] { EXPECT_EQ(status_of(fork_body([&] { transport.reset(); })), 0); };
    drop_copy();
    transport->connect(member.exchange(transport->address()), Deadline::in(patience));
    drop_copy();
    member.meet();
    EXPECT_EQ(transport->departed(member.peers()[0]), std::nullopt);
    greet_peer(member, *transport);
  });
}

TEST(ShmTransport, AForkedChildDoesNotHideTheDeathOfItsParent) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  FileDescriptor outlived{pipe[0]}, test_runs{pipe[1]};
  const auto statuses = run_processes(2, shm_world().new_maker(), [&](const Member& member) {
    test_runs.reset();
    const auto transport = member.connected(small);
    if (member.id() == 1 && ::fork() == 0) {
      ::alarm(watchdog_seconds);
      char nothing = 0;
      ::_exit(static_cast<int>(::read(outlived.get(), &nothing, 1)));  // until the test ends
    }
    member.meet();
    if (member.id() == 1) ::raise(SIGKILL);
    wait_until([&] { return transport->departed(Rank{1}).has_value(); }, "the death");
  });
  EXPECT_EQ(statuses[0], 0) << describe_status(statuses[0]);
  EXPECT_EQ(statuses[1], SIGKILL) << describe_status(statuses[1]);
}

}  // namespace
}  // namespace capstan::conformance
