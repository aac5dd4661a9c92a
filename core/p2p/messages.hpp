#pragma once

#include <chrono>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "capstan/message_info.hpp"
#include "capstan/types.hpp"
#include "core/p2p/rings.hpp"

namespace capstan {

class Peers;

/// Point-to-point messages of one rank of a communicator.
///
/// Short messages travel in a ring per pair of ranks and are copied twice (eager). Of longer ones
/// only an offer travels; the receiver reads the sender's memory straight into its buffer
/// (rendezvous), or where it cannot, asks for fragments through the ring. As in MPI, messages of
/// one sender with the same tag arrive in the order in which they were sent, and receives take them
/// in the order in which they were posted; what nobody has asked for yet is kept.
///
/// Nothing here blocks. Used by one thread at a time.
class Messages {
 public:
  static constexpr int largest_tag = 1 << 30;
  using Time = std::chrono::steady_clock::time_point;

  /// A message on its way out or in. `finished` is called once, from whatever moves it on.
  struct Request {
    std::function<void(std::exception_ptr, const MessageInfo&)> finished{};
    bool sends = false;
    int peer = any_source;
    int tag = any_tag;
    std::optional<DataType> type{};
    std::byte* data = nullptr;
    std::uint64_t size = 0;        ///< of the message, or of the buffer for one
    std::uint64_t done = 0;        ///< bytes that have arrived, of an offer that is being read
    std::uint64_t id = 0;          ///< of the offer
    std::vector<std::byte> own{};  ///< a private copy, once it is detached
    /// Where `data` is, if that is not the caller's memory but stands for memory on a device.
    std::shared_ptr<void> memory{};
    /// Takes so much of what has been received there. What it throws is the request's error.
    std::function<void(Bytes)> unpack{};
    Time since{};  ///< when it was first seen to wait, since it last moved
  };
  using RequestPointer = std::shared_ptr<Request>;

  struct Options {
    Bytes ring{64 << 10};
    Bytes eager{8 << 10};     ///< longer messages are offered
    bool read_remote = true;  ///< off: offered messages always travel in fragments
  };

  /// The area starts at `offset` in every rank's segment.
  Messages(Peers& peers, Bytes offset, const Options& options);

  static Bytes area(int ranks, Bytes ring);

  /// Both start a request. Throw InvalidArgument for a rank or a tag that cannot be.
  void send(RequestPointer request);
  void receive(RequestPointer request);

  /// The first message that a receive with these arguments would get, if it is here.
  std::optional<MessageInfo> probe(int source, int tag);

  /// Moves everything on as far as it goes; true if anything moved.
  bool advance();
  bool idle() const { return pending_ == 0 && queued_ == 0; }

  /// Whether the buffer of a request can be given back to its owner: not that of a send which has
  /// been offered, as the receiver may be reading it at this moment.
  bool can_detach(const RequestPointer& request);
  /// Gives it back: a receive that nothing has come for is withdrawn, what is under way goes on
  /// with a copy. `finished` is not called any more.
  void detach(const RequestPointer& request);

  /// The communicator cannot be used any more.
  void fail_all(const std::exception_ptr& error);

  /// Fails requests whose peers are gone, and receives that have waited longer than `timeout`.
  /// `gone` says why a peer can no longer answer. Throws TimedOut for a send that has: the
  /// communicator has to fail with it, so that nobody reads the buffer any more.
  void check(Time now, std::chrono::milliseconds timeout,
             const std::function<std::optional<std::string>(int)>& gone);

 private:
  struct Outgoing {
    Frame frame;
    const std::byte* payload = nullptr;
    RequestPointer request{};  // a send that ends with this frame
  };
  struct Arrived {  // that nobody has asked for yet
    int source;
    Frame frame;
    std::vector<std::byte> payload;
  };
  struct Incoming {  // an offer that is being read
    RequestPointer request;
    int source;
    Frame frame;
    bool streams = false;
  };

  bool flush(int peer);
  bool pull(Incoming& incoming);
  bool read_offer(const Incoming& incoming, std::uint64_t length);
  void handle(int source, const Frame& frame, const Payload& payload);
  void arrive(int source, const Frame& frame, const Payload& payload);
  void accept(const RequestPointer& request, int source, const Frame& frame,
              const Payload& payload);
  void take_fragment(int source, const Frame& frame, const Payload& payload);
  void stream(int peer, const Frame& frame);
  void watch_sources();
  void check_sends(Time now, std::chrono::milliseconds timeout);
  static Time::duration waited(Time& since, Time now);
  void send_to_self(const RequestPointer& request);
  bool refuse(const RequestPointer& request, int source, const Frame& frame);
  void finish(const RequestPointer& request, std::exception_ptr error, int source, int tag,
              std::uint64_t size);
  void queue(int peer, Outgoing outgoing);
  bool let_go(int peer);
  std::deque<RequestPointer> take_leaving(int peer);
  bool is_leaving(const RequestPointer& request) const;
  Outgoing* waiting_frame(const RequestPointer& request);
  void check_arguments(const Request& request, const char* call) const;
  static bool matches(const Request& request, int source, int tag);

  Peers& peers_;
  const int self_, ranks_;
  const Options options_;
  Rings rings_;

  std::vector<std::deque<Outgoing>> outgoing_;  // by peer: waits for room in the ring
  /// By peer on another host: sends that are in the ring, but not on their way yet. They finish
  /// when they are, so that they arrive whatever this rank does next.
  std::vector<std::deque<RequestPointer>> leaving_;
  std::vector<Time> full_since_;      // by peer: when a send was first seen to get no further
  std::list<RequestPointer> posted_;  // receives, in order
  std::list<Arrived> arrived_;        // in order
  std::list<Incoming> incoming_;
  std::unordered_map<std::uint64_t, RequestPointer> offered_;  // sends, by id
  std::uint64_t next_id_ = 1;
  std::size_t pending_ = 0;  // requests that have not finished
  std::size_t queued_ = 0;   // frames that wait for room
  std::size_t leaving_count_ = 0;
};

}  // namespace capstan
