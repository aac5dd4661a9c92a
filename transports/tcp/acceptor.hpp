#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "transports/tcp/handshake.hpp"
#include "transports/tcp/meeting.hpp"

namespace capstan::tcp {

/// Accepts connections, and lets in only who proves to be the rank that it says it is. Those who
/// have not done so yet are bounded in number, in time and in what they may send.
class Acceptor {
 public:
  Acceptor(Meeting& meeting, std::vector<FileDescriptor> listeners)
      : meeting_(meeting), listeners_(std::move(listeners)) {}

  void start() { listen(true); }
  void accept_from_listener(std::uint32_t which);
  void serve(std::uint32_t id);
  void look_at_clock();
  /// The peer is connected otherwise: whoever says that it is this peer is turned away.
  void turn_away(Rank peer);
  bool busy() const { return !guests_.empty(); }

 private:
  struct Guest {
    FileDescriptor socket;
    std::string from;
    Deadline due;
    MessageReader reader{};
    std::optional<Hello> hello{};
    Nonce nonce{};
  };
  using Guests = std::map<std::uint32_t, Guest>;  // the oldest first

  void listen(bool on);
  void pause();
  void admit(FileDescriptor socket, std::string from);
  bool hear(Guest& guest, const Message& message);
  bool greet(Guest& guest, const Hello& hello);
  bool check(Guest& guest, const Proof& proof);
  bool listen_to(Guest& guest);
  bool refuse(Guest& guest, Reason reason, std::string_view complaint, std::uint64_t detail = 0);
  Guests::iterator drop(Guests::iterator guest);

  Meeting& meeting_;
  std::vector<FileDescriptor> listeners_;
  bool listening_ = false;
  Deadline resume_ = Deadline::never();
  Guests guests_;
  std::uint32_t next_id_ = 0;
};

}  // namespace capstan::tcp
