// SPDX-License-Identifier: Apache-2.0
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

/// The description of one end of a connection that the other end needs.
struct EndInfo {
  std::uint32_t queue_pair = 0;
  std::uint32_t first_packet = 0;  // sequence number
  std::uint32_t key = 0;           // of the first piece of the mirror
  std::uint32_t reads = 0;         // that this end answers at a time
  std::uint64_t mirror = 0;        // address
};

/// The connection to one peer: unsent pushes, and the queue pair.
class Connection {
 public:
  /// `own` is this rank's segment, `mirror` receives the peer's pushes; both and `sources` outlive
  /// the connection. `peer` names the peer in error texts.
  Connection(const Device& device, SendQueue queue, Pieces& own, Pieces& mirror,
             RegisteredSources& sources, std::string peer);

  /// The description of this end. Throws SystemError.
  EndInfo end_info();
  /// Connects to the peer's end. False when the kernel could not resolve its address in time; try
  /// again, as packets may get lost. Throws SystemError.
  bool establish(const VerbsAddress& peer, const EndInfo& end,
                 std::chrono::milliseconds peer_timeout);

  /// See Transport::push_from. `from` null: the segment at `offset`.
  void push(Bytes offset, const void* from, Bytes length);
  /// See Transport::start_read. `keys` are of the memory at `to`.
  std::shared_ptr<RemoteRead> start_read(std::uint64_t address, std::uint32_t key, std::byte* to,
                                         Bytes size, std::shared_ptr<const MemoryKeys> keys);
  /// Whether reads are under way.
  bool awaits_reads() const { return !reads_.empty() || queue_.reads_in_flight() > 0; }
  /// Lets everything pushed so far be sent, and wakes the peer when it has arrived.
  void release();
  void send(const ControlMessage& control) { controls_.push_back(control); }
  /// Sends an empty write that the peer's hardware has to acknowledge, unless one is in flight.
  void probe();
  /// Sends as much as possible now. The connection is lost if the device refuses.
  void flush();

  /// Handles a completion whose wr_id belongs to this connection.
  void complete(std::uint64_t wr_id) { queue_.complete(wr_id); }
  /// Stores the key of a piece of the mirror at the peer.
  void learn_key(std::uint64_t piece, std::uint32_t key);
  /// The key of a piece of the local mirror. Throws SystemError.
  std::uint32_t key_of(std::uint64_t piece) { return mirror_->at(piece).rkey; }
  /// The number of pieces of a mirror.
  std::uint64_t pieces() const { return mirror_->count(); }

  /// Whether everything released has been sent and its memory may change.
  bool pushed() const { return next_ == released_ && !queue_.reads(); }
  /// Whether requests in flight read memory of callers or the segment.
  bool reads_sources() const { return queue_.reads(); }
  /// Whether everything has been sent and acknowledged.
  bool settled() const { return pushed() && controls_.empty() && !queue_.awaits_answer(); }
  /// Copies the sources of everything that waits to be sent.
  void copy_sources();
  /// Gives the connection up: nothing is sent or read any more. `reason` continues a sentence about
  /// the peer: "has died".
  void lose(const std::string& reason);
  const std::optional<std::string>& lost() const { return lost_; }

 private:
  struct Write {
    std::uint64_t offset;                            // in the segment
    const std::byte* from;                           // null: from the end of `copy`
    std::uint64_t length;                            // still to be sent
    std::shared_ptr<const MemoryKeys> registration;  // of memory of push_from
    std::array<std::byte, Transport::snapshot.value()> copy;
    bool wakes;  // whether its arrival wakes the peer
  };
  /// A read, or what is left of it.
  struct Read {
    std::uint64_t address;
    std::uint32_t key;
    std::byte* to;
    std::uint64_t length;
    std::shared_ptr<const MemoryKeys> keys;
    std::shared_ptr<RemoteRead> read;
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
  void read_part(Read& read);
  void forget_sent();

  const Device* device_;
  SendQueue queue_;
  Pieces* own_;
  Pieces* mirror_;
  RegisteredSources* sources_;
  const std::string peer_;
  const std::uint32_t first_packet_;
  std::uint64_t remote_ = 0;  // address of the mirror at the peer
  std::vector<Key> keys_;     // of its pieces
  bool established_ = false;
  // The peer acknowledges each request, and retries are counted from the last acknowledgement.
  // Where packets get lost, a longer request could use up all retries although it makes progress.
  static constexpr std::uint64_t most_per_request = 64 << 10;
  std::uint64_t longest_read_ = most_per_request;

  // writes_[next_, released_) may be sent; later ones wait for a wake.
  std::vector<Write> writes_;
  std::size_t next_ = 0, released_ = 0;
  std::deque<Read> reads_;
  std::deque<ControlMessage> controls_;  // sent first, so that answers never wait for keys
  std::optional<std::string> lost_;
};

}  // namespace capstan::verbs
