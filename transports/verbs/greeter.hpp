// SPDX-License-Identifier: Apache-2.0
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
  std::uint64_t format = current_format;
  Tag tag{};                   // keyed hash of the rest: see seal()
  std::int32_t from = 0;       // rank
  std::uint32_t answered = 0;  // 1: the sender has connected its end already
  EndInfo end;                 // the sender's end for this receiver

  static constexpr std::uint64_t current_format = 0x3230'6767'7370'6163;  // "capsgg02"

  /// With the keyed hash of who has the key of this direction.
  Greeting sealed(const Secret& key) const;
  /// Whether who made it has the key.
  bool is_sealed(const Secret& key) const { return same_tag(tag, sealed(key).tag); }
};
static_assert(std::has_unique_object_representations_v<Greeting>, "sealed as its bytes");

/// Exchanges greetings with peers by datagrams (an unreliable queue pair).
class Greeter {
 public:
  /// `id` is the one in this rank's address. Throws SystemError.
  Greeter(const Device& device, int ranks, const JobKey::TransportId& id);

  /// The number of the queue pair that receives greetings.
  std::uint32_t number() const { return queue_pair_->qp_num; }

  /// Sends a greeting if there is room: it may get lost anyway. Throws SystemError when there is no
  /// route to the peer.
  void greet(Rank rank, const VerbsAddress& peer, const Greeting& greeting);
  /// The next greeting, whoever has sent it, or nothing.
  std::optional<Greeting> receive();

 private:
  struct Slot {
    std::byte route[40];  // the device stores a header here
    Greeting greeting;
  };
  void make_ready();
  void offer(std::size_t slot);

  const Device* device_;
  const JobKey::TransportId id_;
  DeviceArray<Slot> slots_;  // the first `receives_` are for receiving
  std::size_t receives_;
  std::vector<std::size_t> free_;  // unused slots for sending
  CompletionQueue completions_;
  QueuePair queue_pair_;
  ByRank<AddressHandle> handles_;
};

}  // namespace capstan::verbs
