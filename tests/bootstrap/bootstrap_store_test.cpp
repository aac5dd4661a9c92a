// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "capstan/error.hpp"
#include "core/bootstrap/store/store_client.hpp"
#include "core/bootstrap/store/store_server.hpp"
#include "tests/bootstrap/bootstrap_helpers.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::vector<std::byte> pattern(std::size_t size, std::size_t seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + seed);
  return bytes;
}

TEST(Store, ReturnsWhatWasPut) {
  StoreServer server{on_loopback()};
  StoreClient writer = client_of(server), reader = client_of(server);
  put_text(writer, "greeting", "hello");
  EXPECT_EQ(get_text(reader, "greeting", patience()), "hello");
  put_text(writer, "greeting", "good-bye");
  EXPECT_EQ(get_text(reader, "greeting", patience()), "good-bye");
  writer.put("empty", {});
  EXPECT_TRUE(reader.get("empty", patience()).empty());
  EXPECT_EQ(reader.try_get("absent"), std::nullopt);
}

TEST(Store, ServesIPv6) {
  auto settings = on_loopback();
  settings.endpoint = TcpEndpoint{"::1", 0};
  try {
    StoreServer server{settings};
    StoreClient client = client_of(server);
    put_text(client, "key", "value");
    EXPECT_EQ(get_text(client, "key", patience()), "value");
    EXPECT_THAT(to_string(server.endpoint()), HasSubstr("[::1]:"));
  } catch (const SystemError& error) {
    GTEST_SKIP() << "this host has no IPv6 loopback: " << error.what();
  }
}

TEST(Store, CarriesTheLargestValueAndRefusesLarger) {
  StoreServer server{on_loopback()};
  StoreClient client = client_of(server);
  const auto largest = pattern(wire::max_value, 7);
  const std::string longest(wire::max_key, 'k');
  client.put(longest, largest);
  EXPECT_EQ(client.get(longest, patience()), largest);
  EXPECT_THROW(client.put("k", pattern(wire::max_value + 1, 7)), InvalidArgument);
  EXPECT_THROW(put_text(client, longest + "k", ""), InvalidArgument);
  EXPECT_THROW(client.try_get(""), InvalidArgument);
  EXPECT_EQ(client.try_get(longest), largest) << "the connection survives a refused argument";
}

TEST(Store, GetWaitsForThePut) {
  StoreServer server{on_loopback()};
  std::vector<std::jthread> readers;
  std::atomic<int> right{0};
  for (int i = 0; i < 8; ++i) {
    readers.emplace_back([&, i] {
      StoreClient client = client_of(server);
      put_text(client, "ready/" + std::to_string(i), "");
      right += client.get("late", patience()) == pattern(40000, 3) ? 1 : 0;
    });
  }
  StoreClient writer = client_of(server);
  for (int i = 0; i < 8; ++i) writer.get("ready/" + std::to_string(i), patience());
  writer.put("late", pattern(40000, 3));
  readers.clear();
  EXPECT_EQ(right, 8);
}

TEST(Store, ServesManyClientsAtOnce) {
  constexpr int size = 48;
  StoreServer server{on_loopback()};
  std::atomic<int> right{0};
  std::vector<std::jthread> ranks;
  for (int rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      StoreClient store{rank_of(server, rank, size), patience()};
      store.put(std::to_string(rank), pattern(1000, static_cast<std::size_t>(rank)));
      for (int peer = 0; peer < size; ++peer) {
        const auto value = store.get(std::to_string(peer), patience());
        right += value == pattern(1000, static_cast<std::size_t>(peer)) ? 1 : 0;
      }
      barrier(store, "end", rank, size, patience());
    });
  }
  ranks.clear();
  EXPECT_EQ(right, size * size);
}

TEST(Store, ScopesShareNothing) {
  StoreServer server{on_loopback()};
  auto settings = rank_of(server, -1, 0);
  settings.scope = "one";
  StoreClient one{settings, patience()};
  settings.scope = "two";
  StoreClient two{settings, patience()};
  put_text(one, "key", "1");
  EXPECT_EQ(two.try_get("key"), std::nullopt);
}

TEST(Store, TimeOutNamesTheKeyAndTheMissingRanks) {
  StoreServer server{on_loopback()};
  StoreClient zero{rank_of(server, 0, 4), patience()}, two{rank_of(server, 2, 4), patience()};
  {
    StoreClient one{rank_of(server, 1, 4), patience()};
  }
  while (true) {  // the server learns of rank 1's end in its own time
    const auto text = message_of<TimedOut>([&] { zero.get("address/3", soon()); });
    if (text.find("left early") == text.npos) continue;
    EXPECT_THAT(text, AllOf(HasSubstr("rank 0"), HasSubstr("address/3"), HasSubstr("0.1 s"),
                            HasSubstr("rank 3 never joined"), HasSubstr("rank 1 left early")));
    break;
  }
  put_text(zero, "still", "usable");
  EXPECT_EQ(get_text(two, "still", patience()), "usable");
}

TEST(Store, WrongSecretIsNamedAsSuch) {
  StoreServer server{on_loopback()};
  auto settings = rank_of(server, 1, 2);
  settings.secret = Secret::from_text("the secret of something else");
  const auto text = message_of<BootstrapError>([&] { StoreClient{settings, patience()}; });
  EXPECT_THAT(text, AllOf(HasSubstr("rank 1"), HasSubstr("wrong secret"),
                          HasSubstr(to_string(server.endpoint()))));
}

TEST(Store, OnlyOneProcessMayBeARank) {
  StoreServer server{on_loopback()};
  StoreClient first{rank_of(server, 1, 2), patience()};
  EXPECT_THAT(message_of<BootstrapError>([&] { StoreClient{rank_of(server, 1, 2), patience()}; }),
              HasSubstr("rank 1 is connected already"));
  EXPECT_THAT(message_of<BootstrapError>([&] { StoreClient{rank_of(server, 0, 3), patience()}; }),
              HasSubstr("others said 2"));
}

TEST(Store, PortTakenSaysWhatToDo) {
  StoreServer server{on_loopback()};
  auto settings = on_loopback();
  settings.endpoint = server.endpoint();
  const auto text = message_of<SystemError>([&] { StoreServer{settings}; });
  EXPECT_THAT(text, AllOf(HasSubstr(to_string(server.endpoint())), HasSubstr("another process"),
                          HasSubstr("choose another port")));
}

TEST(Store, ForeignAddressSaysWhatToDo) {
  auto settings = on_loopback();
  settings.endpoint = TcpEndpoint{"192.0.2.77", 0};  // reserved for documentation
  EXPECT_THAT(message_of<SystemError>([&] { StoreServer{settings}; }),
              HasSubstr("not an address of this host"));
}

/// The endpoint of a port on which nothing listens any more.
SocketEndpoint silent_endpoint() {
  StoreServer server{on_loopback()};
  return server.endpoint();
}

TEST(Store, NobodyListeningIsNamedAsSuch) {
  const StoreClient::Settings settings{.endpoint = silent_endpoint(), .secret = secret()};
  const auto text = message_of<BootstrapError>([&] { StoreClient{settings, soon()}; });
  EXPECT_THAT(text, AllOf(HasSubstr("connection refused"), HasSubstr("within 0.1 s")));
}

TEST(Store, UnknownHostIsNamedAsSuch) {
  const StoreClient::Settings settings{.endpoint = TcpEndpoint{"host.invalid", 4711},
                                       .secret = secret()};
  EXPECT_THAT(message_of<BootstrapError>([&] { StoreClient{settings, soon()}; }),
              HasSubstr("cannot be resolved"));
}

TEST(Store, ClientWaitsForAServerThatStartsLater) {
  const auto endpoint = silent_endpoint();
  std::atomic<bool> done{false};
  std::jthread client{[&] {
    StoreClient store{{.endpoint = endpoint, .secret = secret()}, patience()};
    put_text(store, "key", "value");
    done = true;
  }};
  std::this_thread::sleep_for(20ms);  // so that it usually finds nobody at first
  auto settings = on_loopback();
  settings.endpoint = endpoint;
  StoreServer server{settings};
  client.join();
  EXPECT_TRUE(done);
}

TEST(Store, ClosedListenerKeepsItsConnections) {
  StoreServer server{on_loopback()};
  StoreClient client = client_of(server);
  server.close_listener();
  EXPECT_FALSE(server.listening());
  put_text(client, "key", "value");
  EXPECT_EQ(get_text(client, "key", patience()), "value");
  const StoreClient::Settings late{.endpoint = server.endpoint(), .secret = secret()};
  EXPECT_THAT(message_of<BootstrapError>([&] { StoreClient{late, soon()}; }),
              HasSubstr("connection refused"));
}

TEST(Store, ListenerClosesWhenAllRanksHaveJoined) {
  auto settings = on_loopback();
  settings.any_scope = false;
  StoreServer server{settings};
  ASSERT_TRUE(server.open_scope(""));
  {
    StoreClient zero{rank_of(server, 0, 2), patience()};
    EXPECT_TRUE(server.listening());
    StoreClient one{rank_of(server, 1, 2), patience()};
    put_text(one, "key", "");  // answered only after the listener was dealt with
    EXPECT_FALSE(server.listening());
    EXPECT_FALSE(server.open_scope("another"));
    EXPECT_FALSE(server.finished());
  }
  while (!server.finished()) std::this_thread::yield();
}

TEST(Store, ScopeThatIsNotOpenIsTriedAgain) {
  auto settings = on_loopback();
  settings.any_scope = false;
  StoreServer server{settings};
  EXPECT_THAT(
      message_of<BootstrapError>([&] { StoreClient{rank_of(server, 1, 2), while_all_come()}; }),
      HasSubstr("does not serve this communicator"));
  std::jthread opener{[&] { server.open_scope(""); }};
  StoreClient client{rank_of(server, 1, 2), patience()};
  put_text(client, "key", "value");
}

TEST(Store, StoppingServerAnswersWhoeverWaits) {
  StoreServer server{on_loopback()};
  StoreClient client{rank_of(server, 0, 2), patience()}, other = client_of(server);
  std::jthread stopper{[&] {
    other.get("about to wait", patience());
    server.stop();
  }};
  put_text(client, "about to wait", "");
  EXPECT_THAT(message_of<BootstrapError>([&] { client.get("never", patience()); }),
              HasSubstr("the process"));
  EXPECT_THROW(put_text(client, "key", ""), BootstrapError);
}

/// A server in a process of its own, which can be killed.
class ServerProcess {
 public:
  ServerProcess() {
    int pipe_ends[2];
    if (::pipe(pipe_ends) != 0) throw std::runtime_error("pipe");
    pid_ = ::fork();
    if (pid_ == 0) serve(pipe_ends[1]);
    ::close(pipe_ends[1]);
    if (::read(pipe_ends[0], &port_, sizeof port_) != sizeof port_) ADD_FAILURE() << "no port";
    ::close(pipe_ends[0]);
  }
  ~ServerProcess() { kill(); }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  SocketEndpoint endpoint() const { return TcpEndpoint{"127.0.0.1", port_}; }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  [[noreturn]] static void serve(int pipe) {
    StoreServer server{on_loopback()};
    const auto port = std::get<TcpEndpoint>(server.endpoint()).port;
    if (::write(pipe, &port, sizeof port) != sizeof port) ::_exit(1);
    while (true) ::pause();
  }

  pid_t pid_;
  std::uint16_t port_ = 0;
};

TEST(Store, DeathOfTheServerEndsAWaitingGet) {
  ServerProcess server;
  StoreClient waiting{{.endpoint = server.endpoint(), .secret = secret(), .rank = 1, .size = 2},
                      patience()};
  StoreClient other{{.endpoint = server.endpoint(), .secret = secret()}, patience()};
  std::jthread killer{[&] {
    other.get("about to wait", patience());
    server.kill();
  }};
  put_text(waiting, "about to wait", "");
  EXPECT_THAT(message_of<BootstrapError>([&] { waiting.get("never", Deadline::never()); }),
              AllOf(HasSubstr("rank 1"), HasSubstr("has ended or dropped this rank")));
  killer.join();
  EXPECT_THAT(message_of<BootstrapError>([&] { waiting.try_get("key"); }),
              HasSubstr("failed earlier"));
}

TEST(Endpoint, ReadsHostAndPort) {
  EXPECT_EQ(parse_endpoint("host:1", "X"), (TcpEndpoint{"host", 1}));
  EXPECT_EQ(parse_endpoint("[::1]:65535", "X"), (TcpEndpoint{"::1", 65535}));
  for (const char* text : {"", "host", "host:", ":1", "host:0", "host:65536", "host:1x", "::1:5",
                           "[]:1", "[::1]", "host:-1", "host: 1"}) {
    EXPECT_THAT(message_of<InvalidArgument>([&] { parse_endpoint(text, "CAPSTAN_STORE"); }),
                HasSubstr("CAPSTAN_STORE"))
        << text;
  }
}

TEST(Endpoint, TeachesWhatIsWrong) {
  const auto refused = [](const char* text) {
    return message_of<InvalidArgument>([&] { parse_endpoint(text, "CAPSTAN_STORE"); });
  };
  for (const char* text : {"host", "[::1]", ""}) EXPECT_THAT(refused(text), HasSubstr("no port"));
  for (const char* text : {":1", "[]:1"}) EXPECT_THAT(refused(text), HasSubstr("no host"));
  EXPECT_THAT(refused("fd00::7:4711"),
              AllOf(HasSubstr("in brackets"), HasSubstr("[fd00::1]:4711")));
  EXPECT_THAT(refused("[host]:1"), HasSubstr("only an IPv6 address"));
  EXPECT_THAT(refused("host:0"), HasSubstr("1 to 65535"));
}

TEST(Endpoint, KeepsTheInterfaceOfALinkLocalAddress) {
  const auto endpoint = parse_endpoint("[fe80::1%lo]:7", "X");
  EXPECT_EQ(endpoint, (TcpEndpoint{"fe80::1%lo", 7}));
  EXPECT_EQ(resolve(endpoint).front().endpoint(), SocketEndpoint{endpoint});
  EXPECT_EQ(to_string(endpoint), "[fe80::1%lo]:7");
}

}  // namespace
}  // namespace capstan
