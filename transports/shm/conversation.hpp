// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "capstan/quantity.hpp"
#include "transports/shm/liveness.hpp"
#include "transports/shm/shm_address.hpp"
#include "transports/shm/unix_socket.hpp"

namespace capstan::shm {

/// The only message of start-up: the sender's rank, and its proof.
struct Introduction {
  static constexpr std::uint64_t current_format = 0x3130'6f72'746e'6961;  // "aintro01"

  std::uint64_t format = current_format;
  std::int32_t rank = 0;
  std::uint16_t membarrier = 0;   // 1: the sender is registered with membarrier(2)
  std::uint16_t keep_socket = 0;  // 1: the sender has no pidfd of the receiver
  Token token{};                  // from the sender's address
};
static_assert(std::has_unique_object_representations_v<Introduction>, "sent as its bytes");

/// The descriptors that a rank sends to each of its peers with its introduction.
struct Handover {
  int segment = -1;
  int header = -1;
  int bell = -1;  // -1: it has none
  bool membarrier = false;
};

/// One start-up connection between two ranks, from this rank's side.
///
///   connector                     listener
///      greeting  ------------------>  knows the rank, checks its token
///      checks    <------------------  offer (greeting and descriptors)
///      offer     ------------------>  checks
///
/// Descriptors thus go only to a process that has proved itself, and that is reading. Each side
/// opens its pidfd of the other before it receives the other's offer. The offer proves that the
/// pidfd is of the right process: that process was still alive when the pidfd was opened.
class Conversation {
 public:
  Conversation(FileDescriptor socket, bool use_pidfd);

  int fd() const { return socket_.get(); }
  const Credentials& credentials() const { return credentials_; }

  /// Queues the next message, to be sent by flush().
  void queue(const Introduction& introduction, std::optional<Handover> handover);
  /// Sends what is queued. Attempt::later: call again.
  Attempt flush();
  bool has_queued() const { return outgoing_.has_value(); }

  struct Incoming {
    /// Empty when the peer has closed (`closed`) or sent something else than an introduction.
    std::optional<Introduction> introduction;
    bool closed = false;
    std::vector<FileDescriptor> descriptors;
    bool lacks_descriptors = false;  ///< see Received
  };
  std::optional<Incoming> receive();

  /// Whether both sides have sent and received all messages.
  bool complete() const { return offered_ && received_offer_ && !outgoing_; }
  /// To be called when the peer's offer has arrived and is valid.
  void accept_offer(const Introduction& offer);
  /// Ends the conversation; keeps what tells whether the peer lives.
  Liveness into_liveness() &&;

 private:
  struct Outgoing {
    Introduction introduction;
    std::vector<int> descriptors;
  };

  FileDescriptor socket_;
  Credentials credentials_;
  Pidfd pidfd_;
  std::optional<Outgoing> outgoing_;
  bool offered_ = false;
  bool received_offer_ = false;
  bool peer_needs_socket_ = false;
};

}  // namespace capstan::shm
