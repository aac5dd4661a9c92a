// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/peer_connection.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <string>

#include "core/platform/net/socket.hpp"

namespace capstan::tcp {

std::string PeerConnection::describe_end(Inbox::State state, int error) const {
  const bool sending = state == Inbox::State::ended;
  if (sending) error = outbox.error();  // sending has seen the error first
  std::string what = "was closed without a goodbye: its process has probably died";
  if (error == ECONNRESET || error == EPIPE) what = "was reset: its process has probably died";
  if (error == ETIMEDOUT || error == EHOSTUNREACH) what = "timed out: its host does not answer";
  if (error == EPERM || error == EACCES || error == ENOSYS)
    what = fmt::format(
        "cannot be used any more: {} failed: {}: a sandbox or a filter of packets has taken this "
        "right from this rank: leave it the right",
        sending ? "sendmsg or send" : "readv or recv", error_text(error));
  if (state == Inbox::State::left) what = "was closed: it has destroyed its transport";
  return fmt::format("connection to rank {} at {} {}", rank.value(), address, what);
}

bool PeerConnection::has_stalled(std::chrono::milliseconds timeout) {
  if (!next_look.expired()) return false;
  next_look = Deadline::in(timeout / 8);
  const Flight now = tcp::flight(socket.get());
  const bool moves = !now.unacknowledged || now.acknowledged != flight.acknowledged;
  if (moves || stalled.is_never()) {
    stalled = now.unacknowledged ? Deadline::in(timeout) : Deadline::never();
  }
  flight = now;
  return stalled.expired();
}

}  // namespace capstan::tcp
