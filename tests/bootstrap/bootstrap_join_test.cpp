// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "capstan/error.hpp"
#include "core/bootstrap/join.hpp"
#include "core/bootstrap/store/hosted_store.hpp"
#include "core/bootstrap/store/store_server.hpp"
#include "tests/free_port.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

Deadline patience() {
  return Deadline::in(60s);
}

/// A job that no other test, nor another run of this one, has.
std::string fresh_job() {
  static int count = 0;
  return "test " + std::to_string(::getpid()) + " " + std::to_string(count++);
}

Launch member(const std::string& job, int rank, int size) {
  return {.rank = rank,
          .size = size,
          .local_rank = rank,
          .local_size = size,
          .job = job,
          .launcher = "test"};
}

/// Runs `body(rank)` in a process per rank and returns what each of them returned; what it throws
/// counts as "error: " and the message.
std::vector<std::string> in_processes(const std::vector<int>& ranks,
                                      const std::function<std::string(int)>& body) {
  struct Child {
    pid_t id;
    int pipe;
  };
  std::vector<Child> children;
  for (int rank : ranks) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    const pid_t id = ::fork();
    if (id == 0) {
      std::string text;
      try {
        text = body(rank);
      } catch (const std::exception& error) {
        text = std::string{"error: "} + error.what();
      }
      ::_exit(::write(ends[1], text.data(), text.size()) < 0 ? 1 : 0);
    }
    ::close(ends[1]);
    children.push_back({id, ends[0]});
  }
  std::vector<std::string> results;
  for (const auto& [id, pipe] : children) {
    std::string text(4096, '\0');
    const auto length = ::read(pipe, text.data(), text.size());
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
    ::close(pipe);
    ::waitpid(id, nullptr, 0);
    results.push_back(text);
  }
  return results;
}

/// Joins, exchanges something with all, and leaves: "met" if all was right.
std::string meet(const Launch& launch) {
  const auto store = join(launch, patience());
  put_text(*store, std::to_string(launch.rank), "from " + std::to_string(launch.rank));
  for (int peer = 0; peer < launch.size; ++peer) {
    const auto text = get_text(*store, std::to_string(peer), patience());
    if (text != "from " + std::to_string(peer)) return "wrong: " + text;
  }
  barrier(*store, "end", launch.rank, launch.size, patience());
  return "met";
}

bool host_has_socket(const std::string& part) {
  std::ifstream sockets{"/proc/net/unix"};
  for (std::string line; std::getline(sockets, line);) {
    if (line.find(part) != line.npos) return true;
  }
  return false;
}

TEST(BootstrapJoin, ProcessesOfAHostMeetAndLeaveNothing) {
  const auto job = fresh_job();
  const auto results =
      in_processes({0, 1, 2, 3, 4, 5}, [&](int rank) { return meet(member(job, rank, 6)); });
  EXPECT_EQ(results, std::vector<std::string>(6, "met"));
  EXPECT_FALSE(host_has_socket("@capstan-" + std::to_string(::geteuid()) + "-" + fingerprint(job)));
}

TEST(BootstrapJoin, OneAfterTheOtherAndAtOnce) {
  const auto job = fresh_job();
  const auto results = in_processes({0, 1, 2}, [&](int rank) {
    const Launch launch = member(job, rank, 3);
    for (int i = 0; i < 5; ++i) {
      if (const auto result = meet(launch); result != "met") return result;
    }
    const auto a = join(launch, patience()), b = join(launch, patience());
    if (rank == 0) put_text(*a, "key", "a"), put_text(*b, "key", "b");
    const auto both = get_text(*b, "key", patience()) + get_text(*a, "key", patience());
    barrier(*b, "end", rank, 3, patience());
    barrier(*a, "end", rank, 3, patience());
    return both;
  });
  EXPECT_EQ(results, std::vector<std::string>(3, "ba"));
}

TEST(BootstrapJoin, JobsAreApart) {
  const auto one = fresh_job(), two = fresh_job();
  const auto results =
      in_processes({0, 1, 2, 3}, [&](int i) { return meet(member(i < 2 ? one : two, i % 2, 2)); });
  EXPECT_EQ(results, std::vector<std::string>(4, "met"));
}

TEST(BootstrapJoin, EveryOtherRankNamesTheOneThatNeverJoined) {
  const auto job = fresh_job();
  const auto results = in_processes({0, 1, 3}, [&](int rank) -> std::string {
    const auto store = join(member(job, rank, 4), patience());
    put_text(*store, "here/" + std::to_string(rank), "");
    for (int peer : {0, 1, 3}) store->get("here/" + std::to_string(peer), patience());
    barrier(*store, "start", rank, 4, Deadline::in(2s));
    return "passed";
  });
  for (const auto& text : results) {
    EXPECT_THAT(text, AllOf(HasSubstr("error: "), HasSubstr("rank 2 never joined")));
  }
}

TEST(BootstrapJoin, WithoutRankZeroTheErrorSaysThatNobodyListens) {
  const auto results = in_processes({1}, [job = fresh_job()](int rank) -> std::string {
    join(member(job, rank, 2), Deadline::in(50ms));
    return "joined";
  });
  EXPECT_THAT(results[0], AllOf(HasSubstr("rank 1"), HasSubstr("nothing listens")));
}

Launch at_port(const std::string& job, int rank, int size, std::uint16_t port, bool by_launcher) {
  Launch launch = member(job, rank, size);
  launch.store = StoreLocation{TcpEndpoint{"127.0.0.1", port}, Secret::from_text(job), by_launcher};
  return launch;
}

TEST(BootstrapJoin, RankZeroHostsAtTheNamedAddress) {
  const auto job = fresh_job();
  const auto port = free_port();
  const auto results = in_processes({0, 1, 2}, [&](int rank) {
    const Launch launch = at_port(job, rank, 3, port, false);
    for (int i = 0; i < 8; ++i) {  // all share the port, one after the other
      if (const auto result = meet(launch); result != "met") return result;
    }
    const auto a = join(launch, patience()), b = join(launch, patience());  // and at once
    barrier(*a, "end", rank, 3, patience());
    barrier(*b, "end", rank, 3, patience());
    return std::string{"met"};
  });
  EXPECT_EQ(results, std::vector<std::string>(3, "met"));
}

TEST(BootstrapJoin, LauncherHosts) {
  const auto job = fresh_job();
  StoreServer server{{.endpoint = TcpEndpoint{}, .secret = Secret::from_text(job)}};
  const auto port = std::get<TcpEndpoint>(server.endpoint()).port;
  std::vector<std::string> results(4);
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      auto& result = results[static_cast<std::size_t>(rank)];
      for (int i = 0; i < 3; ++i) result += meet(at_port(job, rank, 4, port, true));
    });
  }
  ranks.clear();
  EXPECT_EQ(results, std::vector<std::string>(4, "metmetmet"));
}

TEST(BootstrapJoin, WorldOfOneNeedsNoServer) {
  EXPECT_EQ(meet(member(fresh_job(), 0, 1)), "met");
  EXPECT_EQ(meet(at_port(fresh_job(), 0, 1, 1, false)), "met");
}

template <class Expected>
std::string complaint(const Launch& launch) {
  try {
    join(launch, Deadline::in(50ms));
  } catch (const Expected& error) {
    return error.what();
  }
  return "no complaint";
}

TEST(BootstrapJoin, SeveralHostsNeedAnAddress) {
  Launch launch = member(fresh_job(), 1, 4);
  launch.local_size = 2;
  EXPECT_THAT(complaint<BootstrapError>(launch),
              AllOf(HasSubstr("CAPSTAN_STORE=host:port"), HasSubstr("CAPSTAN_SECRET")));
}

/// A launcher that has started this rank alone knows nothing of where the others are.
TEST(BootstrapJoin, RanksOfSeveralLaunchersMeetOnOneHost) {
  const std::string job = fresh_job();
  const auto port = free_port();
  for (const std::string& outcome : in_processes({0, 1}, [&](int rank) {
         Launch launch = at_port(job, rank, 2, port, false);
         launch.local_rank = 0;
         launch.local_size = 1;
         return meet(launch);
       }))
    EXPECT_EQ(outcome, "met");
}

/// The error of a rank whose peer never comes.
std::string lonely(const Launch& launch) {
  try {
    const auto store = join(launch, Deadline::in(100ms));
    store->get("a key of the peer", Deadline::in(100ms));
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(BootstrapJoin, AnAddressOfOneHostIsToldOfWhenRanksAreMissing) {
  const auto port = free_port();
  for (const int rank : {0, 1}) {
    Launch launch = at_port(fresh_job(), rank, 2, port, false);
    EXPECT_THAT(lonely(launch), ::testing::Not(HasSubstr("if there are other hosts")));
    launch.local_size = 1;
    launch.local_rank = 0;
    EXPECT_THAT(lonely(launch), HasSubstr("if there are other hosts"));
  }
}

Settings at_interface(const std::string& interface) {
  Settings settings;
  settings.interface = interface;
  return settings;
}

TEST(BootstrapJoin, OnOneHostTheInterfaceForOthersDoesNotMatter) {
  Launch launch = at_port(fresh_job(), 0, 2, free_port(), false);
  std::jthread other{[launch]() mutable {
    launch.rank = 1;
    EXPECT_NO_THROW(join(launch, patience()));
  }};
  const auto store = join(launch, patience(), at_interface("eth99"));
  EXPECT_EQ(dynamic_cast<HostedStore&>(*store).endpoint(), launch.store->endpoint);
  other.join();
}

TEST(BootstrapJoin, AnInterfaceWithoutTheNamedAddressIsRefused) {
  const Launch launch = at_port(fresh_job(), 0, 2, free_port(), false);
  const auto refused = [&](const std::string& interface, const std::string& host) {
    Launch at = launch;
    std::get<TcpEndpoint>(at.store->endpoint).host = host;
    try {
      join(at, Deadline::in(50ms), at_interface(interface));
    } catch (const InvalidArgument& error) {
      return std::string{error.what()};
    }
    return std::string{"no complaint"};
  };
  EXPECT_THAT(refused("eth99", "192.0.2.1"), HasSubstr("no such interface"));
  EXPECT_THAT(refused("lo", "0.0.0.0"), HasSubstr("not an address of the interface"));
  EXPECT_THAT(
      refused("lo", "192.0.2.1"),
      AllOf(HasSubstr("192.0.2.1"), HasSubstr("CAPSTAN_INTERFACE=lo"), HasSubstr("127.0.0.1")));
}

TEST(BootstrapJoin, PmixIsRefusedWhereThereIsNone) {
  try {
    Settings settings;
    settings.bootstrap = Bootstrap::pmix;
    join(member(fresh_job(), 0, 2), Deadline::in(50ms), settings);
    FAIL() << "joined";
  } catch (const BootstrapError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("offers no PMIx"), HasSubstr("rank 0")));
  }
}

TEST(BootstrapJoin, TakenNameIsNamed) {
  const auto job = fresh_job();
  const auto name = "capstan-" + std::to_string(::geteuid()) + "-" + fingerprint(job) + "-0";
  const FileDescriptor squatter = listen_on(AbstractEndpoint{name});
  EXPECT_THAT(complaint<SystemError>(member(job, 0, 2)),
              AllOf(HasSubstr("@" + name), HasSubstr("another process")));
}

/// Runs as another user, where the test may.
bool become_nobody() {
  return ::setresuid(65534, 65534, 65534) == 0;
}

/// A socket of another user that has a name, and listens there or not.
FileDescriptor squatted(const std::string& name, bool listens) {
  const AbstractEndpoint endpoint{name};
  FileDescriptor socket = make_socket(AF_UNIX);
  const SocketAddress address = resolve(endpoint).front();
  if (::seteuid(65534) != 0) throw std::runtime_error("still root");
  const bool bound = ::bind(socket.get(), address.get(), address.length) == 0 &&
                     (!listens || ::listen(socket.get(), 10) == 0);
  if (::seteuid(0) != 0 || !bound) throw std::runtime_error("cannot squat");
  return socket;
}

TEST(BootstrapJoin, SocketOfAnotherUserIsNotTrusted) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to act as two users";
  const auto job = fresh_job();
  const auto name = "capstan-0-" + fingerprint(job) + "-0";
  const FileDescriptor squatter = squatted(name, true);
  EXPECT_THAT(complaint<BootstrapError>(member(job, 1, 2)),
              HasSubstr("user 65534 listens under this job's name, not user 0"));
}

/// Not even with names like that which rank 0 chooses instead.
TEST(BootstrapJoin, AnotherUserCannotKeepRanksApartByTakingTheirName) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to act as two users";
  for (const bool listens : {true, false}) {
    const auto job = fresh_job();
    const auto name = "capstan-0-" + fingerprint(job) + "-0";
    const FileDescriptor squatter = squatted(name, listens);
    const FileDescriptor another = squatted(name + "-0123456789abcdef", true);
    const auto results =
        in_processes({0, 1, 2}, [&](int rank) { return meet(member(job, rank, 3)); });
    EXPECT_EQ(results, std::vector<std::string>(3, "met")) << listens;
  }
}

TEST(BootstrapJoin, ClientOfAnotherUserIsTurnedAway) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to act as two users";
  const AbstractEndpoint endpoint{"capstan-test-" + std::to_string(::getpid())};
  const auto results = in_processes({0}, [&](int) -> std::string {
    StoreServer server{{.endpoint = endpoint, .secret = Secret::from_text("secret")}};
    const pid_t child = ::fork();
    if (child == 0) {
      if (!become_nobody()) ::_exit(2);
      const auto connected = connect_to(resolve(endpoint).front(), patience());
      char byte;
      const bool ok = connected.socket.valid() && wait_for(connected.socket, POLLIN, patience());
      ::_exit(ok && ::read(connected.socket.get(), &byte, 1) == 0 ? 0 : 1);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    return std::to_string(status);
  });
  EXPECT_EQ(results[0], "0");
}

}  // namespace
}  // namespace capstan
