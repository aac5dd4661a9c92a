#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "transports/verbs/connection.hpp"
#include "transports/verbs/device.hpp"
#include "transports/verbs/device_array.hpp"

namespace capstan::verbs {

/// What one rank tells another so that both can connect; a datagram, so it may get lost.
struct Greeting {
  std::uint64_t format = 0;
  Token token{};               // of the receiver: strangers do not know it
  std::int32_t from = 0;       // rank
  std::uint32_t answered = 0;  // whether the sender has connected its end already
  EndInfo end;                 // that the sender has made for the receiver
};

/// Exchanges greetings with peers by datagrams.
class Greeter {
 public:
  /// `token` is what its own rank has published. Throws SystemError.
  Greeter(const Device& device, int ranks, const Token& token);

  /// What others need to greet this rank.
  std::uint32_t number() const { return queue_pair_->qp_num; }

  /// Sends a greeting if there is room: it may get lost anyway. Throws SystemError when there is no
  /// way to the peer.
  void greet(std::size_t rank, const VerbsAddress& peer, Greeting greeting);
  /// A greeting that has come, from one who knows the token.
  std::optional<Greeting> receive();

 private:
  struct Slot {
    std::byte route[40];  // the device puts a header here
    Greeting greeting;
  };
  void make_ready();
  void offer(std::size_t slot);

  const Device* device_;
  const Token token_;
  DeviceArray<Slot> slots_;  // the first `receives_` are for what comes
  std::size_t receives_;
  std::vector<std::size_t> free_;  // slots for what goes
  CompletionQueue completions_;
  QueuePair queue_pair_;
  std::vector<AddressHandle> handles_;  // by rank
};

}  // namespace capstan::verbs
