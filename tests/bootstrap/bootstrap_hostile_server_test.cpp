// SPDX-License-Identifier: Apache-2.0

// Servers that are no store, or none of the job: the complaints of a client.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "capstan/error.hpp"
#include "core/bootstrap/store/store_client.hpp"
#include "core/bootstrap/store/wire.hpp"
#include "core/platform/net/socket.hpp"
#include "tests/bootstrap/raw_connection.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;
using namespace hostile;
using hostile::Bytes;
using ::testing::HasSubstr;

/// Listens, accepts one connection and gives it to `serve`.
class FakeServer {
 public:
  explicit FakeServer(std::function<void(RawConnection&)> serve)
      : listener_(listen_on(TcpEndpoint{})),
        endpoint_(local_address(listener_).endpoint()),
        thread_([this, serve = std::move(serve)] {
          if (!wait_for(listener_, POLLIN, patience())) return;
          RawConnection connection{FileDescriptor{
              ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)}};
          serve(connection);
        }) {}

  /// The error of a client with the right secret.
  std::string complaint(Deadline deadline = patience()) const {
    try {
      StoreClient{{.endpoint = endpoint_, .secret = secret()}, deadline};
    } catch (const BootstrapError& error) {
      return error.what();
    }
    return "no complaint";
  }

 private:
  FileDescriptor listener_;
  SocketEndpoint endpoint_;
  std::jthread thread_;
};

Bytes text_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span{text.data(), text.size()});
  return {bytes.begin(), bytes.end()};
}

TEST(HostileServer, SomethingElseIsNamedAsSuch) {
  const FakeServer web{[](RawConnection& c) {
    c.send(text_bytes("HTTP/1.1 400 Bad Request\r\n\r\n"));
    c.closed();
  }};
  EXPECT_THAT(web.complaint(), HasSubstr("not a Capstan store"));
}

TEST(HostileServer, OneWithoutTheSecretIsDetected) {
  const FakeServer impostor{[](RawConnection& c) {
    c.receive();
    c.send(wire::Challenge{});
    c.receive();
    c.send(wire::Welcome{});
    c.closed();
  }};
  EXPECT_THAT(impostor.complaint(), HasSubstr("does not know the job's secret"));
}

/// The client's own proof sent back must not pass as the server's.
TEST(HostileServer, ReflectionIsDetected) {
  const FakeServer mirror{[](RawConnection& c) {
    const auto hello = std::get<wire::Hello>(c.receive());
    c.send(wire::Challenge{hello.nonce});
    c.send(wire::Welcome{std::get<wire::Join>(c.receive()).proof});
    c.closed();
  }};
  EXPECT_THAT(mirror.complaint(), HasSubstr("does not know the job's secret"));
}

TEST(HostileServer, SilenceIsNamedAsSuch) {
  const FakeServer silent{[](RawConnection& c) { c.closed(); }};
  EXPECT_THAT(silent.complaint(Deadline::in(100ms)),
              HasSubstr("does not answer as a Capstan store"));
}

TEST(HostileServer, OtherVersionIsNamedAsSuch) {
  const FakeServer newer{[](RawConnection& c) {
    c.send(frame(wire::protocol.version + 1, 2, 32, Bytes(32)));
    c.closed();
  }};
  EXPECT_THAT(newer.complaint(), HasSubstr("version 3 of the Capstan store protocol"));
}

/// A listener at the address may send any text, as it has proven nothing yet.
TEST(HostileServer, TextsAreSafeOnATerminal) {
  for (const auto reason : {wire::FailureReason::full, wire::FailureReason::rank_taken,
                            wire::FailureReason::wrong_size, wire::FailureReason::malformed}) {
    const FakeServer writer{[&](RawConnection& c) {
      c.receive();
      c.send(wire::Refusal{reason, "go away\x1b[2J\r"});
      c.closed();
    }};
    EXPECT_THAT(writer.complaint(Deadline::in(100ms)), HasSubstr("go away\\x1b[2J\\x0d"));
  }
}

}  // namespace
}  // namespace capstan
