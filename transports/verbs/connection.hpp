#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transports/common/registered_sources.hpp"
#include "transports/verbs/pieces.hpp"
#include "transports/verbs/receive_queue.hpp"
#include "transports/verbs/send_queue.hpp"

namespace capstan::verbs {

/// What one end of a connection has to know of the other.
struct EndInfo {
  std::uint32_t queue_pair = 0;
  std::uint32_t first_packet = 0;  // sequence number
  std::uint32_t key = 0;           // of the mirror's first piece
  std::uint32_t unused = 0;
  std::uint64_t mirror = 0;  // address
};

/// The way to one peer: what has been pushed to it and not yet been sent, and the queue pair.
class Connection {
 public:
  /// `own` is this rank's segment, `mirror` that of the peer here; these and `sources` outlive the
  /// connection. `peer` names the peer in messages.
  Connection(const Device& device, SendQueue queue, Pieces& own, Pieces& mirror,
             RegisteredSources& sources, std::string peer);

  /// What the peer has to know of this end. Throws SystemError.
  EndInfo end_info();
  /// Connects to the peer's end. False when the kernel could not find out its address in time,
  /// which is worth another try: packets may get lost. Throws SystemError.
  bool establish(const VerbsAddress& peer, const EndInfo& end,
                 std::chrono::milliseconds peer_timeout);

  /// See Transport. `from` null: what the segment holds there.
  void push(Bytes offset, const void* from, Bytes length);
  /// What has been pushed may be sent now, and the peer is to be told.
  void release();
  void send(const ControlMessage& control) { controls_.push_back(control); }
  /// Asks the peer's hardware for a sign of life, unless it owes one already.
  void probe();
  /// Sends as much as is possible now; where nothing ever will be, the connection is lost.
  void flush();

  /// For a completion whose wr_id is of this connection.
  void complete(std::uint64_t wr_id) { queue_.complete(wr_id); }
  /// The peer has told the key of a piece of the mirror there.
  void learn_key(std::uint64_t piece, std::uint32_t key);
  /// The key of a piece of the mirror here. Throws SystemError.
  std::uint32_t key_of(std::uint64_t piece) { return mirror_->at(piece).rkey; }
  bool has_piece(std::uint64_t piece) const { return piece < mirror_->count(); }

  /// Whether all that was released is sent and read no more.
  bool pushed() const { return next_ == released_ && !queue_.reads(); }
  /// Whether memory that is the caller's, or the segment, is read by requests under way.
  bool reads_sources() const { return queue_.reads(); }
  /// Whether the peer has acknowledged everything that it was asked to.
  bool settled() const { return pushed() && controls_.empty() && !queue_.awaits_answer(); }
  /// What waits to be sent is copied.
  void copy_sources();
  /// Gives the connection up: nothing is sent or read any more. `reason` goes on after the peer's
  /// name: "has died".
  void lose(const std::string& reason);
  const std::optional<std::string>& lost() const { return lost_; }

 private:
  struct Write {
    std::uint64_t offset;                            // in the segment
    const std::byte* from;                           // null: from the end of `copy`
    std::uint64_t length;                            // still to be sent
    std::shared_ptr<const MemoryKeys> registration;  // holds the memory of push_from
    std::array<std::byte, Transport::snapshot.value()> copy;
    bool wakes;  // the peer, when it is there
  };
  struct Key {
    enum class State : std::uint32_t { unknown, asked, known };
    State state = State::unknown;
    std::uint32_t key = 0;
  };

  void register_source(Write& write);
  void copy_source(Write& write);
  void ask_for_keys(std::uint64_t offset, std::uint64_t length);
  void send_some();
  bool send_part(Write& write);
  void forget_sent();

  const Device* device_;
  SendQueue queue_;
  Pieces* own_;
  Pieces* mirror_;
  RegisteredSources* sources_;
  const std::string peer_;
  const std::uint32_t first_packet_;
  std::uint64_t remote_ = 0;  // address of the mirror there
  std::vector<Key> keys_;     // of its pieces
  bool established_ = false;

  // writes_[next_, released_) may be sent; what follows waits for a wake.
  std::vector<Write> writes_;
  std::size_t next_ = 0, released_ = 0;
  std::deque<ControlMessage> controls_;  // these go first, so that answers never wait for keys
  std::optional<std::string> lost_;
};

}  // namespace capstan::verbs
