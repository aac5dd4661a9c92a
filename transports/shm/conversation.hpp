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

/// The only message of start-up: who is speaking, and proof of it.
struct Introduction {
  static constexpr std::uint64_t current_format = 0x3130'6f72'746e'6961;  // "aintro01"

  std::uint64_t format = current_format;
  std::int32_t rank = 0;
  std::uint16_t membarrier = 0;   // 1: the speaker is registered with it
  std::uint16_t keep_socket = 0;  // 1: the speaker has no pidfd of the listener
  Token token{};                  // from the speaker's address
};
static_assert(std::has_unique_object_representations_v<Introduction>, "sent as its bytes");

/// What a rank hands to each of its peers along with its introduction.
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
/// So descriptors go only to a process that has proved itself, and are under way only to one that
/// is reading. Each side takes its pidfd of the other before the other's offer, which proves that
/// the process was still alive then.
class Conversation {
 public:
  Conversation(FileDescriptor socket, bool use_pidfd);

  int fd() const { return socket_.get(); }
  const Credentials& credentials() const { return credentials_; }

  /// What to say next; it is sent by flush().
  void queue(const Introduction& introduction, std::optional<Handover> handover);
  /// Sends what is queued. Later: to be called again.
  Attempt flush();
  bool has_queued() const { return outgoing_.has_value(); }

  struct Incoming {
    /// Empty when the peer has closed (`closed`) or said something else than an introduction.
    std::optional<Introduction> introduction;
    bool closed = false;
    std::vector<FileDescriptor> descriptors;
  };
  std::optional<Incoming> receive();

  /// Whether everything that had to be said both ways was said.
  bool complete() const { return offered_ && received_offer_ && !outgoing_; }
  /// The peer's offer has come and was found good.
  void accept_offer(const Introduction& offer);
  /// Ends the conversation.
  Liveness into_liveness() &&;

 private:
  struct Outgoing {
    Introduction introduction;
    std::vector<int> descriptors;
  };

  FileDescriptor socket_;
  Credentials credentials_;
  FileDescriptor pidfd_;
  std::optional<Outgoing> outgoing_;
  bool offered_ = false;
  bool received_offer_ = false;
  bool peer_needs_socket_ = false;
};

}  // namespace capstan::shm
