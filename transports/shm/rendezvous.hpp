// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <poll.h>

#include <optional>
#include <string>
#include <vector>

#include "capstan/deadline.hpp"
#include "capstan/quantity.hpp"
#include "core/platform/net/file_descriptor.hpp"
#include "core/platform/net/rate_limited_warnings.hpp"
#include "transports/shm/conversation.hpp"
#include "transports/shm/liveness.hpp"
#include "transports/shm/shm_address.hpp"
#include "transports/shm/unix_socket.hpp"

namespace capstan::shm {

/// The descriptors that a peer has sent.
struct Partner {
  FileDescriptor segment;
  FileDescriptor header;
  FileDescriptor bell;  // invalid if it has none
  bool membarrier = false;
  Liveness liveness;
};

/// Connects the ranks of one host: each connects to all lower ranks, and each pair introduces
/// itself and exchanges descriptors. Uses one thread that blocks in poll(2) alone. Nothing that a
/// stranger sends can stop it. The destructor closes everything.
class Rendezvous {
 public:
  /// `world` has one address per rank. The listener has the name in the address of `self`.
  Rendezvous(Rank self, std::vector<ShmAddress> world, Handover own, UnixListener listener,
             bool use_pidfd);

  /// One partner per rank; this rank's own stays empty. Throws SystemError; BootstrapError that
  /// names each rank that is missing at the deadline, or earlier when one can no longer connect.
  std::vector<Partner> run(Deadline deadline);

 private:
  struct Peer {
    ShmAddress address;
    Pidfd watch;  // until it has connected: readable when it no longer can
    std::optional<Conversation> conversation;
    Partner partner;
    bool done = false;
  };
  enum class Source { listener, newcomer, conversation, death };
  struct Event {
    Source source;
    std::size_t index;
  };

  void watch_peers();
  bool advance();
  bool reach_out(std::size_t rank);
  void greet(std::size_t rank, FileDescriptor socket);
  bool flush(std::size_t rank);
  void look_who_listens();

  void wait(Deadline deadline, bool retry_soon);
  void add_event(int fd, Source source, std::size_t index);
  void collect_events();
  void handle(const Event& event);

  void admit_newcomers();
  void make_room_for_newcomer();
  void on_newcomer(std::optional<Conversation>& newcomer);
  std::optional<std::size_t> identify(const Conversation& newcomer, const Introduction& greeting);
  void refuse(const Conversation& newcomer, std::string_view reason);
  bool expects(Credentials found) const;

  void on_message(std::size_t rank);
  void take_offer(std::size_t rank, Conversation::Incoming incoming);
  std::string reason_to_distrust(const Peer& peer, std::size_t rank,
                                 const Conversation::Incoming& incoming) const;
  void on_death(std::size_t rank);
  void finish(std::size_t rank);

  bool has_died(const Peer& peer) const;
  [[noreturn]] void fail_as_deaf(std::size_t rank);
  [[noreturn]] void fail(std::size_t rank, std::string reason);
  [[noreturn]] void give_up_at_deadline();
  std::string state_of(const Peer& peer) const;
  std::string who_is(std::size_t rank) const;
  std::size_t self() const { return static_cast<std::size_t>(self_.value()); }

  Rank self_;
  Handover own_;
  UnixListener listener_;
  bool use_pidfd_;
  std::vector<Peer> peers_;                             // by rank
  std::vector<std::optional<Conversation>> newcomers_;  // have not introduced themselves yet
  std::size_t missing_;
  Deadline next_look_;
  std::vector<pollfd> polled_;
  std::vector<Event> events_;  // for each entry of polled_
  RateLimitedWarnings warnings_{fmt::format("rank {}: connect: refused", self_.value())};
};

}  // namespace capstan::shm
