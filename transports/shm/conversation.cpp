// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/conversation.hpp"

#include <array>
#include <cstring>
#include <span>
#include <utility>

namespace capstan::shm {

Conversation::Conversation(FileDescriptor socket, bool use_pidfd)
    : socket_(std::move(socket)), credentials_(credentials_of_peer(socket_.get())) {
  if (use_pidfd) pidfd_ = open_pidfd_of_peer(socket_.get(), credentials_.pid);
}

void Conversation::queue(const Introduction& introduction, std::optional<Handover> handover) {
  outgoing_ = Outgoing{introduction, {}};
  outgoing_->introduction.keep_socket = pidfd_ ? 0 : 1;
  if (!handover) return;
  const auto& [segment, header, bell, membarrier] = *handover;
  outgoing_->descriptors =
      bell >= 0 ? std::vector{segment, header, bell} : std::vector{segment, header};
}

Attempt Conversation::flush() {
  if (!outgoing_) return Attempt::done;
  const auto bytes = std::as_bytes(std::span{&outgoing_->introduction, 1});
  const Attempt attempt = send_message(socket_.get(), bytes, outgoing_->descriptors);
  if (attempt == Attempt::done) {
    offered_ = !outgoing_->descriptors.empty();
    outgoing_.reset();
  }
  return attempt;
}

std::optional<Conversation::Incoming> Conversation::receive() {
  std::array<std::byte, sizeof(Introduction)> bytes{};
  std::optional<Received> received = receive_message(socket_.get(), bytes);
  if (!received) return std::nullopt;

  Incoming incoming{std::nullopt, received->closed, std::move(received->descriptors),
                    received->lacks_descriptors};
  Introduction introduction;
  if (received->length == sizeof(introduction)) {
    std::memcpy(&introduction, bytes.data(), sizeof(introduction));
    if (introduction.format == Introduction::current_format) incoming.introduction = introduction;
  }
  return incoming;
}

void Conversation::accept_offer(const Introduction& offer) {
  received_offer_ = true;
  peer_needs_socket_ = offer.keep_socket != 0;
}

Liveness Conversation::into_liveness() && {
  const bool keep = !pidfd_ || peer_needs_socket_;
  return {credentials_.pid, std::move(pidfd_), keep ? std::move(socket_) : FileDescriptor{}};
}

}  // namespace capstan::shm
