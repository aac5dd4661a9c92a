// SPDX-License-Identifier: Apache-2.0

// Forked children, such as ranks, hold copies of what the process that serves them has open.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "capstan/error.hpp"
#include "core/bootstrap/store/store_client.hpp"
#include "core/bootstrap/store/store_server.hpp"
#include "tests/bootstrap/bootstrap_helpers.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// A forked child that holds copies of what the server has open, as ranks do that a program forks;
/// not of what clients have open here.
class ChildWithCopies {
 public:
  explicit ChildWithCopies(const StoreServer& server) {
    int pipe_ends[2];
    if (::pipe(pipe_ends) != 0) throw std::runtime_error("pipe");
    pid_ = ::fork();
    if (pid_ == 0) stay(std::get<TcpEndpoint>(server.endpoint()).port, pipe_ends[1]);
    ::close(pipe_ends[1]);
    char ready;
    if (::read(pipe_ends[0], &ready, 1) != 1) ADD_FAILURE() << "the child has ended";
    ::close(pipe_ends[0]);
  }
  ~ChildWithCopies() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ChildWithCopies(const ChildWithCopies&) = delete;
  ChildWithCopies& operator=(const ChildWithCopies&) = delete;

 private:
  [[noreturn]] static void stay(std::uint16_t port, int pipe) {
    ::alarm(120);
    for (int fd = 3; fd < 256; ++fd) {
      sockaddr_in peer{};
      socklen_t length = sizeof peer;
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0 &&
          peer.sin_family == AF_INET && ntohs(peer.sin_port) == port)
        ::close(fd);
    }
    if (::write(pipe, "", 1) != 1) ::_exit(1);
    while (true) ::pause();
  }

  pid_t pid_;
};

/// Counts the descriptors that this process's epoll descriptors watch: the kernel's "tfd:" lines.
int watched_descriptors() {
  int watched = 0;
  for (const auto& entry : std::filesystem::directory_iterator{"/proc/self/fd"}) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry, gone) != "anon_inode:[eventpoll]") continue;
    std::ifstream account{"/proc/self/fdinfo" / entry.path().filename()};
    for (std::string line; std::getline(account, line);) watched += line.starts_with("tfd:");
  }
  return watched;
}

TEST(Store, WatchesNoConnectionThatOnlyAForkedChildHolds) {
  StoreServer server{on_loopback()};
  const int before = watched_descriptors();
  auto client = std::make_unique<StoreClient>(client_of(server));
  put_text(*client, "key", "value");
  EXPECT_EQ(watched_descriptors(), before + 1);
  const ChildWithCopies child{server};
  client.reset();
  for (const auto deadline = patience(); watched_descriptors() > before && !deadline.expired();)
    std::this_thread::sleep_for(1ms);
  EXPECT_EQ(watched_descriptors(), before) << "it would wake the server for ever";
}

TEST(Store, ClientsSeeTheEndThoughAForkedChildHoldsACopy) {
  StoreServer server{on_loopback()};
  StoreClient client = client_of(server);
  put_text(client, "key", "value");
  const ChildWithCopies child{server};
  server.stop();
  EXPECT_THAT(message_of<BootstrapError>([&] { client.try_get("key"); }),
              HasSubstr("has ended or dropped"));
}

}  // namespace
}  // namespace capstan
