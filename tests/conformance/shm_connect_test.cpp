// SPDX-License-Identifier: Apache-2.0

// The peers that the shared-memory transport accepts at start-up, and those it refuses.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <filesystem>

#include "capstan/error.hpp"
#include "tests/conformance/captured_output.hpp"
#include "tests/conformance/shm_world.hpp"
#include "transports/shm/conversation.hpp"
#include "transports/shm/memfd.hpp"
#include "transports/shm/shm_address.hpp"
#include "transports/shm/unix_socket.hpp"

namespace capstan::conformance {
namespace {

using namespace std::chrono_literals;
using shm::Introduction;
using shm::ShmAddress;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

std::string failure_of(Transport& transport, const std::vector<Address>& addresses,
                       Deadline::Clock::duration time) {
  try {
    transport.connect(addresses, Deadline::in(time));
  } catch (const BootstrapError& error) {
    return error.what();
  }
  return "nothing: it connected";
}

// --- Addresses ---

TEST(ShmAddress, SurvivesEncoding) {
  const ShmAddress address = ShmAddress::of_this_process(Bytes{12345});
  const ShmAddress copy = decoded(address.encode());
  EXPECT_EQ(copy.segment, 12345u);
  EXPECT_EQ(copy.pid, ::getpid());
  EXPECT_EQ(copy.token, address.token);
  EXPECT_EQ(copy.socket(), address.socket());
  EXPECT_EQ(address.obstacle_to(copy), std::nullopt);
}

TEST(ShmAddress, IsDifferentEachTime) {
  const ShmAddress a = ShmAddress::of_this_process(small), b = ShmAddress::of_this_process(small);
  EXPECT_NE(a.token, b.token);
  EXPECT_NE(a.socket(), b.socket());
}

TEST(ShmAddress, RefusesWhatItDidNotEncode) {
  ShmAddress address = ShmAddress::of_this_process(small);
  Address cut = address.encode();
  cut.pop_back();
  EXPECT_FALSE(ShmAddress::decode(cut));
  EXPECT_FALSE(ShmAddress::decode({}));

  ShmAddress endless = address;
  endless.socket_name.fill('x');
  EXPECT_FALSE(ShmAddress::decode(endless.encode()));
  ShmAddress huge = address;
  huge.segment = ~std::uint64_t{0};
  EXPECT_FALSE(ShmAddress::decode(huge.encode()));
  ShmAddress newer = address;
  ++newer.format;
  EXPECT_FALSE(ShmAddress::decode(newer.encode()));
}

/// The error of rank 0 when it gets a changed address of rank 1.
std::string complaint_about(const std::function<Address(ShmAddress)>& change) {
  const auto own = make_shm_transport(Rank{0}, 2, small);
  const Address other = change(ShmAddress::of_this_process(small));
  return failure_of(*own, {own->address(), other}, patience);
}

TEST(ShmConnect, SaysThatAPeerIsOnAnotherHost) {
  const std::string complaint = complaint_about([](ShmAddress address) {
    address.boot_id[0] = '?';
    return address.encode();
  });
  EXPECT_THAT(complaint, AllOf(HasSubstr("rank 1"), HasSubstr("another host")));
}

TEST(ShmConnect, SaysThatAPeerIsInAnotherContainer) {
  const std::string complaint = complaint_about([](ShmAddress address) {
    ++address.network_namespace;
    return address.encode();
  });
  EXPECT_THAT(complaint, AllOf(HasSubstr("rank 1"), HasSubstr("another network namespace")));
}

TEST(ShmConnect, SaysThatAnAddressIsNoAddress) {
  const auto garbage = [](const ShmAddress&) { return Address(77, std::byte{1}); };
  EXPECT_THAT(complaint_about(garbage), HasSubstr("rank 1 cannot be met"));
}

TEST(ShmConnect, RefusesTheWrongNumberOfAddressesAndASecondCall) {
  const auto transport = make_shm_transport(Rank{0}, 1, small);
  const std::vector<Address> addresses(2, transport->address());
  transport->connect(std::span{addresses}.first(1), Deadline::never());
  EXPECT_THROW(transport->connect(std::span{addresses}.first(1), Deadline::never()),
               InvalidArgument);
  EXPECT_THROW(make_shm_transport(Rank{0}, 1, small)->connect(addresses, Deadline::never()),
               InvalidArgument);
  EXPECT_THROW(make_shm_transport(Rank{3}, 2, small), InvalidArgument);
}

// --- Access ---

/// Descriptor of a connection to the listener of `address`.
FileDescriptor knock(const Address& address) {
  shm::Connecting connecting = shm::connect_to(decoded(address).socket());
  if (connecting.attempt != shm::Attempt::done) throw std::runtime_error("nobody listens");
  return std::move(connecting.socket);
}

void say(const FileDescriptor& socket, std::span<const std::byte> message,
         std::span<const int> descriptors = {}) {
  ASSERT_EQ(shm::send_message(socket.get(), message, descriptors), shm::Attempt::done);
}

void introduce(const FileDescriptor& socket, const Introduction& introduction,
               std::span<const int> descriptors = {}) {
  say(socket, std::as_bytes(std::span{&introduction, 1}), descriptors);
}

/// Sends all kinds of wrong messages to the listener at `address`, from a process that it expects.
std::vector<FileDescriptor> misbehave(const Address& address, const Token& own_token) {
  const std::vector<std::byte> garbage(3), long_garbage(9000);
  const std::array<int, 2> descriptors{STDIN_FILENO, STDERR_FILENO};
  std::vector<FileDescriptor> sockets;
  const auto next = [&]() -> FileDescriptor& { return sockets.emplace_back(knock(address)); };

  next();  // remains silent
  {
    knock(address);
  }  // closes without a word
  say(next(), garbage);
  say(next(), long_garbage);
  introduce(next(), {.rank = 1});                      // lacks the token
  introduce(next(), {.rank = 0, .token = own_token});  // claims to be the listener
  introduce(next(), {.rank = 2, .token = own_token});  // does not exist
  introduce(next(), {.rank = -1, .token = own_token});
  introduce(next(), {.format = 1, .rank = 1, .token = own_token});
  introduce(next(), {.rank = 1, .token = own_token}, descriptors);  // nobody asked for them
  return sockets;
}

std::size_t occurrences(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ShmConnect, RefusesStrangersAndConnectsNonetheless) {
  shm_world().run(2, [](const Member& member) {
    const auto transport = member.make(small);
    const std::vector<Address> addresses = member.exchange(transport->address());
    std::vector<FileDescriptor> sockets;
    if (member.id() == 1) sockets = misbehave(addresses[0], decoded(addresses[1]).token);
    member.meet();
    const auto descriptors = [] {
      return std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {});
    };
    const auto before = descriptors();
    {
      CapturedOutput output;
      transport->connect(addresses, Deadline::in(patience));
      if (member.id() == 0) {
        EXPECT_EQ(occurrences(output.text(), "refused process"), 9u);
      }
    }
    // The listener and two memfds are closed, a pidfd is open; no descriptor of strangers is.
    EXPECT_EQ(descriptors(), before - 2);
    greet_peer(member, *transport);
  });
}

/// Introduces itself as rank 1, with its token, and checks that it receives nothing.
void pose_as_rank_1(const Member& member, const std::vector<Address>& addresses) {
  const FileDescriptor socket = knock(addresses[0]);
  introduce(socket, {.rank = 1, .token = decoded(addresses[1]).token});
  member.meet();
  wait_until([&] { return shm::is_readable(socket.get()); }, "an answer");
  std::array<std::byte, 64> answer;
  const auto received = shm::receive_message(socket.get(), answer);
  EXPECT_TRUE(received && received->closed && received->descriptors.empty());
}

void expect_only_an_impostor(const Member& member, Transport& transport,
                             const std::vector<Address>& addresses, const std::string& warning) {
  CapturedOutput output;
  member.meet();
  EXPECT_THAT(failure_of(transport, addresses, 200ms), HasSubstr("rank 1 ("));
  EXPECT_THAT(output.text(), AllOf(HasSubstr("refused process"), HasSubstr(warning)));
}

TEST(ShmConnect, RefusesAnotherProcessThatKnowsTheToken) {
  shm_world().run(2, [](const Member& member) {
    const auto transport = member.make(small);
    const std::vector<Address> addresses = member.exchange(transport->address());
    if (member.id() == 0) return expect_only_an_impostor(member, *transport, addresses, "process");
    const pid_t impostor = fork_body([&] { pose_as_rank_1(member, addresses); });
    EXPECT_EQ(status_of(impostor), 0);
  });
}

TEST(ShmConnect, RefusesAnotherUserThatKnowsTheToken) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  shm_world().run(2, [](const Member& member) {
    const auto transport = member.make(small);
    const std::vector<Address> addresses = member.exchange(transport->address());
    if (member.id() == 0) {
      return expect_only_an_impostor(member, *transport, addresses, "of user 65534");
    }
    ASSERT_EQ(::seteuid(65534), 0);
    pose_as_rank_1(member, addresses);
    ASSERT_EQ(::seteuid(0), 0);
  });
}

TEST(ShmConnect, DoesNotGreetASocketOfAnotherUser) {
  shm_world().run(2, [](const Member& member) {
    const auto transport = member.make(small);
    std::vector<Address> addresses = member.exchange(transport->address());
    if (member.id() == 1) {
      ShmAddress changed = decoded(addresses[0]);
      ++changed.uid;
      addresses[0] = changed.encode();
      EXPECT_THAT(failure_of(*transport, addresses, patience),
                  AllOf(HasSubstr("rank 0 ("), HasSubstr("not trusted")));
    }
    member.meet();
  });
}

TEST(ShmConnect, RefusesAListenerWithAnotherToken) {
  shm_world().run(2, [](const Member& member) {
    const auto transport = member.make(small);
    std::vector<Address> addresses = member.exchange(transport->address());
    if (member.id() == 1) {
      ShmAddress changed = decoded(addresses[0]);
      changed.token[0] ^= std::byte{1};
      addresses[0] = changed.encode();
      EXPECT_THAT(failure_of(*transport, addresses, patience),
                  AllOf(HasSubstr("rank 0 ("), HasSubstr("lacks the token")));
    } else {
      EXPECT_THAT(failure_of(*transport, addresses, patience), HasSubstr("rank 1 ("));
    }
    member.meet();
  });
}

/// Rank 1 sends `segment` and a valid header; checks the error of rank 0.
void expect_refusal_of(const std::function<FileDescriptor()>& open_segment,
                       const std::string& complaint) {
  shm_world().run(2, [&](const Member& member) {
    const auto transport = member.make(small);
    const std::vector<Address> addresses = member.exchange(transport->address());
    if (member.id() == 0) {
      EXPECT_THAT(failure_of(*transport, addresses, patience),
                  AllOf(HasSubstr("rank 1 ("), HasSubstr(complaint)));
      return;
    }
    const FileDescriptor socket = knock(addresses[0]), segment = open_segment();
    const shm::Memfd header = shm::Memfd::create(Bytes{4096});
    const Introduction introduction{.rank = 1, .token = decoded(addresses[1]).token};
    introduce(socket, introduction);
    introduce(socket, introduction, std::array{segment.get(), header.fd.get()});
    std::array<std::byte, 64> answer;
    wait_until(
        [&] {
          const auto received = shm::receive_message(socket.get(), answer);
          return received && received->closed;
        },
        "the connection to be dropped");
  });
}

TEST(ShmConnect, RefusesMemoryThatCouldBeCutOff) {
  expect_refusal_of(
      [] {
        FileDescriptor fd{::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
        EXPECT_EQ(::ftruncate(fd.get(), 4096), 0);
        return fd;
      },
      "not sealed");
}

TEST(ShmConnect, RefusesMemoryOfAnotherSize) {
  expect_refusal_of([] { return std::move(shm::Memfd::create(Bytes{8192}).fd); }, "has 8192 bytes");
}

TEST(ShmConnect, RefusesWhatIsNoMemory) {
  expect_refusal_of([] { return FileDescriptor{::open("/dev/null", O_RDWR | O_CLOEXEC)}; },
                    "no memfd");
}

// --- Missing peers ---

/// Rank `victim` ends as `die` does; the other has to say that it has died.
void expect_news_of_a_death(int victim,
                            const std::function<void(std::unique_ptr<Transport>)>& die) {
  const auto statuses = run_processes(2, shm_world().new_maker(), [&](const Member& member) {
    auto transport = member.make(small);
    const std::vector<Address> addresses = member.exchange(transport->address());
    if (member.id() == victim) die(std::move(transport));
    EXPECT_THAT(failure_of(*transport, addresses, 2 * patience),
                AllOf(HasSubstr(fmt::format("rank {} (", victim)),
                      AnyOf(HasSubstr("has died"), HasSubstr("gave up"))));
  });
  EXPECT_EQ(statuses[1 - static_cast<std::size_t>(victim)], 0);
  EXPECT_EQ(statuses[static_cast<std::size_t>(victim)], SIGKILL);
}

TEST(ShmConnect, NoticesAtOnceThatAPeerHasDied) {
  for (const int victim : {0, 1}) {
    SCOPED_TRACE(victim);
    expect_news_of_a_death(victim, [](auto) { ::raise(SIGKILL); });
  }
}

/// The kernel closes the sockets of a process first, and may take long to end it.
TEST(ShmConnect, KnowsADeathFromAnEarlyEndOfTheSocket) {
  for (const int victim : {0, 1}) {
    SCOPED_TRACE(victim);
    expect_news_of_a_death(victim, [](auto transport) {
      transport.reset();
      std::this_thread::sleep_for(150ms);
      ::raise(SIGKILL);
    });
  }
}

/// Whichever rank it is. Those that notice it give up themselves, which others may notice first.
TEST(ShmConnect, NoticesAtOnceThatAPeerHasGivenUp) {
  for (const int victim : {0, 1, 2}) {
    SCOPED_TRACE(victim);
    shm_world().run(3, [&](const Member& member) {
      auto transport = member.make(small);
      const std::vector<Address> addresses = member.exchange(transport->address());
      if (member.id() == victim) transport.reset();
      member.meet();
      if (transport) {
        const auto began = std::chrono::steady_clock::now();
        EXPECT_THAT(failure_of(*transport, addresses, 2 * patience),
                    AnyOf(HasSubstr("no longer listens"), HasSubstr("gave up")));
        EXPECT_LT(std::chrono::steady_clock::now() - began, patience);
      }
      member.meet();
    });
  }
}

}  // namespace
}  // namespace capstan::conformance
