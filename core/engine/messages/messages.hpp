// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "capstan/by_rank.hpp"
#include "capstan/foreign_type.hpp"
#include "capstan/message_info.hpp"
#include "capstan/types.hpp"
#include "core/engine/messages/credits.hpp"
#include "core/engine/messages/message_ways.hpp"
#include "core/engine/messages/rings.hpp"
#include "core/engine/messages/spare_buffers.hpp"
#include "transports/transport.hpp"

namespace capstan {

class Peers;

/// Point-to-point messages of one rank of a communicator.
///
/// Short messages go through a ring per pair of ranks and are copied twice (eager protocol); on one
/// host so do those that fit into an empty ring, in fragments. Of a longer message only an offer
/// goes through the ring. The receiver reads the sender's memory into its own buffer (rendezvous),
/// from another host by its network card; or, where it cannot, it asks for fragments through the
/// ring. As in MPI, messages of one sender with the same tag arrive in the order in which they were
/// sent, receives match them in the order in which they were posted, and unexpected messages are
/// stored.
///
/// The messages that a rank stores are bounded (Options::unexpected). Its peers send short messages
/// eagerly as long as they have credit. Without credit they offer a message, and keep its data
/// until a receive matches. Both kinds travel in one ring, so that their order is kept. A sender
/// never waits for credit, so that flow control adds no way to deadlock.
///
/// Nothing here blocks. Used by one thread at a time.
class Messages {
 public:
  static constexpr int largest_tag = 1 << 30;
  /// From here on tags are of members that form a group: no receive of the program matches them.
  static constexpr int first_group_tag = largest_tag + 1;
  static constexpr int largest_group_tag = std::numeric_limits<int>::max() - first_group_tag;
  using Time = std::chrono::steady_clock::time_point;

  struct MessageTransfer;
  /// How a transfer gets at memory that is not simply the caller's, on the host.
  struct SpecialMemory {
    /// Allocates the memory of a receive of any length, for a message of a type and size in bytes.
    /// An exception is the error of the transfer, and the message is dropped.
    std::function<std::byte*(std::optional<DataType>, std::uint64_t)> allocate{};
    /// Owns the memory at `data`, where that is a host copy of memory on a device.
    std::shared_ptr<void> owner{};
    /// Moves so many received bytes from that host copy to the device. An exception is the error of
    /// the transfer.
    std::function<void(Bytes)> unpack{};
    /// While `data` is on a device: replaces it by a host copy, for what hardware does not move.
    std::function<void(MessageTransfer&)> stage{};
    /// Has kernels see what a card has written to the device. An exception is the error of the
    /// transfer.
    std::function<void()> flush{};
  };
  /// A message that is being sent or received. `finished` is called once, by the function that
  /// completes it.
  struct MessageTransfer {
    std::function<void(std::exception_ptr, const MessageInfo&)> finished{};
    bool sends = false;
    int peer = any_source;
    int tag = any_tag;
    bool forms_group = false;  ///< between members, with a tag of theirs
    std::optional<DataType> type{};
    ForeignType foreign{};  ///< of u8
    std::byte* data = nullptr;
    std::uint64_t size = 0;        ///< of the message, or of the buffer for one
    std::uint64_t done = 0;        ///< bytes received of an offer
    std::uint64_t id = 0;          ///< of the offer
    std::vector<std::byte> own{};  ///< a private copy, after detach()
    /// A digest of the tensor's shape, 0 if there is none: sent along, or expected by a receive,
    /// which the message then fills.
    std::uint32_t shape = 0;
    std::shared_ptr<SpecialMemory> special{};  ///< null, for most
    /// The memory of an offer to another host, which the receiver's network card may read.
    std::shared_ptr<ExposedMemory> exposed{};
    /// The read by this rank's network card that a receive has begun.
    std::shared_ptr<RemoteRead> read{};
    Time since{};  ///< when check() first saw it wait since its last progress

    SpecialMemory& make_special() {
      if (!special) special = std::make_shared<SpecialMemory>();
      return *special;
    }
    bool allocates() const { return special && special->allocate; }
    bool has_owner() const { return special && special->owner; }
    bool is_on_device() const { return special && special->stage; }
  };
  using TransferPointer = std::shared_ptr<MessageTransfer>;

  struct Options {
    Bytes ring{64 << 10};
    Bytes eager{8 << 10};     ///< longer messages are offered
    bool read_remote = true;  ///< off: offered messages always travel in fragments
    /// A receiver reads offers from this host without the sender's help: that may not run, or its
    /// memory is the receiver's, too.
    bool reads_alone = false;
    /// The most bytes of unexpected messages that a rank stores. Equal on all ranks.
    Bytes unexpected{64 << 20};
  };

  /// The area starts at `offset` in every rank's segment.
  Messages(Peers& peers, Bytes offset, const Options& options);

  static Bytes area(int ranks, Bytes ring);
  /// The bytes of Options::unexpected that an unexpected message uses: its data, and what is kept
  /// about it.
  static Bytes stored_bytes(std::uint64_t size) { return Bytes{size + 128}; }

  /// Whether a transfer of memory of a device may begin with that memory: hardware may move it.
  bool may_stay_on_device(const MessageTransfer& transfer) const;

  /// Throws InvalidArgument for a rank that does not exist and for a tag out of range.
  void check_arguments(const MessageTransfer& transfer) const {
    check_arguments(transfer, transfer.sends ? "send to" : "receive from");
  }
  /// Both start a transfer that has passed check_arguments().
  void send(TransferPointer transfer);
  void receive(TransferPointer transfer);
  /// A transfer that has not finished goes on as another object, into which it has been moved.
  void replace(const MessageTransfer& transfer, const TransferPointer& by);

  /// The message that a receive with these arguments would match now, if there is one.
  std::optional<MessageInfo> probe(int source, int tag);

  /// Makes all progress that is possible without waiting; true if there was any.
  bool advance();
  bool idle() const { return pending_ == 0 && queued_ == 0; }

  /// Whether the buffer of a transfer can be given back to its owner. The buffer of an offered send
  /// cannot, as the receiver may be reading it at this moment.
  bool can_detach(const TransferPointer& transfer);
  /// Gives the buffer back: a receive that has matched nothing is withdrawn, any other transfer
  /// continues with a copy. `finished` is not called any more.
  void detach(const TransferPointer& transfer);

  /// Ends all transfers with this error: the communicator cannot be used any more.
  void fail_all(const std::exception_ptr& error);

  /// Knows peers, and why one of them keeps others waiting.
  class Judge {
   public:
    virtual ~Judge() = default;
    /// Why a peer can no longer answer, if it cannot.
    virtual std::optional<std::string> gone(Rank peer) = 0;
    /// Asked when all peers have been looked at: whether those that died with one of them are
    /// known, too, so that an error can name all.
    virtual bool all_losses_are_known() { return true; }
    /// The error of a transfer whose peer is gone.
    virtual std::exception_ptr lost(const MessageTransfer& transfer, Rank peer,
                                    const std::string& reason) = 0;
    /// Whether a wait has taken longer than it may.
    virtual bool is_late(Time::duration waited) = 0;
    /// The error of a transfer that has waited for so long; null where it may wait a little longer.
    virtual std::exception_ptr late(const MessageTransfer& transfer, Rank peer,
                                    Time::duration waited) = 0;
  };
  /// Fails transfers whose peers are gone, and receives that have waited too long. Throws for a
  /// send that has waited too long: the communicator has to fail with it, so that its peers stop
  /// reading the buffer.
  void check(Time now, Judge& judge);

  /// A peer that a transfer waits for; any_source: any peer.
  struct Awaited {
    int peer = any_source;
    const MessageTransfer* transfer = nullptr;
    Time since{};
  };
  /// Whom the transfers wait for that have been seen to wait: the oldest of each peer and
  /// direction.
  std::vector<Awaited> awaited() const;

 private:
  struct Outgoing {
    MessageFrame frame;
    const std::byte* payload = nullptr;
    TransferPointer transfer{};  // a send that is complete when this frame has been sent
    std::uint64_t left = 0;      // of a message in fragments: bytes to be sent
    std::uint64_t fragment = 0;  // ... and how many of them travel together
    bool streams = false;        // its fragments go past the cache
  };
  struct Unexpected {  // a message that no receive has matched yet
    Rank source;
    MessageFrame frame;
    SpareBuffers::Buffer payload{};  // of frame.size bytes, unless it is an offer
    std::uint64_t arrived = 0;       // bytes of it
  };
  struct Incoming {  // a matched offer
    TransferPointer transfer;
    Rank source;
    MessageFrame frame;
    bool in_fragments = false;   // which the sender writes, unasked or not
    std::exception_ptr error{};  // the message does not fit: it is dropped
    Time told{};                 // when its sender was told last that it is being read
    Time began{};                // when it was matched, if its sender is on this host
    MessageWay way{};
    std::uint64_t read = 0;  // bytes, while the sender does not answer
    bool complete() const { return error || transfer->done == frame.size; }
  };

  bool read_frames(Rank peer);
  bool travels_in_pieces(Rank peer, std::uint64_t size) const;
  bool begins_at_once(const MessageTransfer& transfer);
  bool streams_to(Rank peer, MessageFrame& frame);
  void tell_time(const Incoming& incoming);
  void note_time(Rank source, const MessageFrame& frame);
  bool send_at_once(Rank peer, const MessageFrame& frame, const TransferPointer& transfer);
  std::uint64_t fragment_of(const MessageTransfer& transfer) const;
  bool write_frame(Rank peer, Outgoing& outgoing);
  bool write_frames(Rank peer);
  bool pull(Incoming& incoming);
  bool start_read(const Incoming& incoming);
  bool take_in(Incoming& incoming);
  bool begin_pull(Incoming& incoming);
  void ask_for_fragments(Incoming& incoming);
  bool read_meanwhile(Incoming& incoming);
  bool read_offer(const Incoming& incoming, std::uint64_t offset, std::uint64_t length);
  void end_fragments(Rank peer, std::uint64_t id);
  void note_way(const Incoming& incoming);
  void expose(MessageTransfer& transfer, MessageFrame& frame);
  void handle(Rank source, const MessageFrame& frame, const Payload& payload);
  void arrive(Rank source, const MessageFrame& frame, const Payload& payload);
  void accept(const TransferPointer& transfer, Rank source, const MessageFrame& frame,
              const Payload& payload);
  Unexpected take_unexpected(std::list<Unexpected>::iterator found);
  void store_fragment(Rank source, const MessageFrame& frame, const Payload& payload);
  void receive_fragment(Rank source, const MessageFrame& frame, const Payload& payload);
  void stream(Rank peer, const MessageFrame& frame);
  TransferPointer take_offer(Rank peer, std::uint64_t id);
  void watch_sources();
  void check_sends(Time now, Judge& judge);
  const MessageTransfer* first_unsent(Rank peer) const;
  static std::exception_ptr hand_over(const SpecialMemory& memory, std::uint64_t size);
  void end_hardware_access(MessageTransfer& transfer, bool failed);
  static void to_host(MessageTransfer& transfer);
  static Time::duration waited(Time& since, Time now);
  void send_to_self(const TransferPointer& transfer, MessageFrame& frame);
  void note_elements(const MessageTransfer& transfer, const MessageType& type);
  void offer(const TransferPointer& transfer, MessageFrame& frame);
  void end_offer(Rank peer, std::uint64_t id);
  bool acknowledge(const Incoming& incoming);
  void finish(const Incoming& incoming);
  void store(Rank source, const MessageFrame& frame, const Payload& payload);
  bool refuse(const TransferPointer& transfer, Rank source, const MessageFrame& frame);
  std::exception_ptr misfit(const MessageTransfer& transfer, Rank source,
                            const MessageFrame& frame) const;
  std::exception_ptr make_room(MessageTransfer& transfer, const MessageFrame& frame);
  std::deque<TransferPointer>::const_iterator first_posted(Rank source, int tag) const;
  void take_own(const TransferPointer& transfer, const MessageFrame& frame);
  void finish(const TransferPointer& transfer, std::exception_ptr error, int source, int tag,
              std::uint64_t size);
  void queue(Rank peer, Outgoing outgoing);
  bool finish_sent(Rank peer);
  std::deque<TransferPointer> take_sending(Rank peer);
  bool is_sending(const TransferPointer& transfer) const;
  Outgoing* waiting_frame(const TransferPointer& transfer);
  void check_arguments(const MessageTransfer& transfer, const char* call) const;
  static bool matches(const MessageTransfer& transfer, Rank source, int tag);

  Peers& peers_;
  const Rank self_;
  const int ranks_;
  const Options options_;
  Rings rings_;
  Credits credits_;

  ByRank<std::deque<Outgoing>> outgoing_;  // frames that wait for room in the ring
  /// Sends whose frames are in the ring, but have not left this host yet. Such a send finishes when
  /// its frames have left, so that the message arrives whatever this rank does next.
  ByRank<std::deque<TransferPointer>> sending_;
  ByRank<Time> full_since_;             // when check() first saw that a send made no progress
  ByRank<std::uint8_t> takes_offers_;   // 1: read an offer since the last check(), or a part of one
  std::deque<TransferPointer> posted_;  // receives, in the order of the calls
  std::list<Unexpected> unexpected_;    // in the order of arrival
  SpareBuffers spare_;
  std::list<Incoming> incoming_;
  ByRank<std::unique_ptr<MessageWays>> ways_;     // from the first offer on, by its sender
  ByRank<std::unique_ptr<MessageWays>> ways_to_;  // from the first that begins unasked, by receiver
  ByRank<Time> answered_;                         // when the last fragment came
  std::unordered_map<std::uint64_t, TransferPointer> offered_;  // sends, by id
  std::uint64_t next_id_ = 1;
  std::size_t pending_ = 0;        // transfers that have not finished
  std::size_t queued_ = 0;         // frames in outgoing_
  std::size_t sending_count_ = 0;  // transfers in sending_
};

}  // namespace capstan
