#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "capstan/by_rank.hpp"
#include "transports/verbs/connection.hpp"
#include "transports/verbs/device.hpp"
#include "transports/verbs/device_array.hpp"

namespace capstan::verbs {

/// The datagram by which one rank tells another how to connect. It may get lost.
struct Greeting {
  std::uint64_t format = 0;
  Token token{};               // of the receiver, which strangers do not know
  std::int32_t from = 0;       // rank
  std::uint32_t answered = 0;  // 1: the sender has connected its end already
  EndInfo end;                 // the sender's end for this receiver
};

/// Exchanges greetings with peers by datagrams (an unreliable queue pair).
class Greeter {
 public:
  /// `token` is the one that this rank has published. Throws SystemError.
  Greeter(const Device& device, int ranks, const Token& token);

  /// The number of the queue pair that receives greetings.
  std::uint32_t number() const { return queue_pair_->qp_num; }

  /// Sends a greeting if there is room: it may get lost anyway. Throws SystemError when there is no
  /// route to the peer.
  void greet(Rank rank, const VerbsAddress& peer, Greeting greeting);
  /// The next greeting with the right token, or nothing.
  std::optional<Greeting> receive();

 private:
  struct Slot {
    std::byte route[40];  // the device stores a header here
    Greeting greeting;
  };
  void make_ready();
  void offer(std::size_t slot);

  const Device* device_;
  const Token token_;
  DeviceArray<Slot> slots_;  // the first `receives_` are for receiving
  std::size_t receives_;
  std::vector<std::size_t> free_;  // unused slots for sending
  CompletionQueue completions_;
  QueuePair queue_pair_;
  ByRank<AddressHandle> handles_;
};

}  // namespace capstan::verbs
