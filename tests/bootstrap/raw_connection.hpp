// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "capstan/deadline.hpp"
#include "core/bootstrap/store/wire.hpp"
#include "core/platform/net/socket.hpp"

/// Clients and servers of a store that say what they like.
namespace capstan::hostile {

using Bytes = std::vector<std::byte>;

inline Deadline patience() {
  return Deadline::in(std::chrono::seconds{60});
}

inline const Secret& secret() {
  static const Secret value = Secret::from_text("the secret of these tests");
  return value;
}

/// A connection that can say anything.
class RawConnection {
 public:
  explicit RawConnection(const SocketEndpoint& endpoint)
      : socket_(connect_to(resolve(endpoint).front(), patience()).socket) {}
  explicit RawConnection(FileDescriptor socket) : socket_(std::move(socket)) {}

  void send(std::span<const std::byte> bytes) {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const auto n = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n > 0) sent += static_cast<std::size_t>(n);
      if (n < 0 && (errno != EAGAIN || !wait_for(socket_, POLLOUT, patience()))) return;
    }
  }
  void send(const wire::StoreMessage& message) { send(conversation_.encode(message)); }
  /// After join(): a payload that may be none, sealed as it should be.
  void send_sealed(std::uint16_t type, const Bytes& payload) {
    ByteWriter inner;
    inner.number(type);
    inner.raw(payload);
    send(framed(wire::protocol, wire::sealed_type, out_->seal(inner.take())));
  }
  wire::StoreMessage receive() {
    while (true) {
      if (auto message = conversation_.take()) return *message;
      if (!read_some()) throw std::runtime_error("closed");
    }
  }
  /// Waits until the other side has closed. False if it did not in a very long time.
  bool closed() {
    Bytes waste(4096);
    while (wait_for(socket_, POLLIN, patience())) {
      if (::recv(socket_.get(), waste.data(), waste.size(), 0) <= 0) return true;
    }
    return false;
  }
  /// Becomes a client that has proved itself.
  void join() {
    handshake::Initiator proofs;
    std::get<wire::Welcome>(ask_to_join({-1, 0, ""}, proofs));
    conversation_.seal(proofs.keys().for_initiator(), wire::max_payload);
    out_ = proofs.keys().for_initiator().out;
  }
  /// The server's answer to this claim, of one that knows the secret.
  wire::StoreMessage ask_to_join(const wire::Membership& claims, handshake::Initiator& proofs) {
    send(proofs.hello());
    const auto challenge = std::get<wire::Challenge>(receive());
    send(proofs.claim(challenge, claims, secret()));
    return receive();
  }
  /// After join(): a whole sealed frame.
  Bytes sealed(const wire::StoreMessage& message) { return conversation_.encode(message); }

 private:
  bool read_some() {
    if (!wait_for(socket_, POLLIN, patience())) return false;
    const auto space = conversation_.space();
    const auto n = ::recv(socket_.get(), space.data(), space.size(), 0);
    if (n <= 0) return false;
    conversation_.commit(static_cast<std::size_t>(n));
    return true;
  }

  FileDescriptor socket_;
  wire::Conversation conversation_{wire::max_payload};
  std::optional<Sealer> out_;
};

/// A header of this protocol before whatever follows.
inline Bytes frame(std::uint16_t version, std::uint16_t type, std::uint32_t length,
                   const Bytes& payload) {
  Bytes bytes{std::byte{'C'}, std::byte{'P'}, std::byte{'S'}, std::byte{'T'}};
  for (int i = 0; i < 2; ++i) bytes.push_back(static_cast<std::byte>(version >> (8 * i)));
  for (int i = 0; i < 2; ++i) bytes.push_back(static_cast<std::byte>(type >> (8 * i)));
  for (int i = 0; i < 4; ++i) bytes.push_back(static_cast<std::byte>(length >> (8 * i)));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

}  // namespace capstan::hostile
