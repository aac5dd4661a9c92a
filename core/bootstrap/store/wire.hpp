// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/platform/net/handshake.hpp"

/// The protocol between a store's clients and its server: the handshake of
/// core/platform/net/handshake.hpp, whose claims are the client's Membership, and then
///
///   client                                     server
///   Put | Get | TryGet                   ->
///                                        <-    Done | Value | Absent | Failure     and so on
///
/// with one request at a time; a Get is answered when the key is there or its time is up. All that
/// follows the Welcome is sealed with the keys of the handshake (core/platform/net/sealed.hpp): a
/// Sealed message holds the type and the payload of one of the others.
namespace capstan::wire {

/// A host that has not answered for so long is taken for dead, by clients and the server.
inline constexpr std::chrono::seconds dead_host_time{90};

inline constexpr std::size_t max_key = 256;
inline constexpr std::size_t max_value = 64 * 1024;
inline constexpr std::size_t max_scope = 64;
inline constexpr std::int32_t max_ranks = 1 << 20;  ///< of a scope
/// The longest payload before a client is known to hold the secret, and afterwards.
inline constexpr std::size_t max_handshake_payload = handshake::max_payload;
inline constexpr std::size_t max_payload = 2 + max_key + max_value + 2 + seal_overhead;

inline constexpr ProtocolId protocol{
    .magic = {'C', 'P', 'S', 'T'},
    .version = 2,
    .name = "the Capstan store protocol",
};

/// The claims of a client. Rank -1 is a client that is no rank (a launcher, a tool), whose size
/// means nothing.
struct Membership {
  std::int32_t rank;
  std::int32_t size;
  std::string scope;
  bool operator==(const Membership&) const = default;
};

void write(ByteWriter& w, const Membership& m);
void read(ByteReader& r, Membership& m);

enum class FailureReason : std::uint16_t {
  malformed,     ///< bytes that are not this protocol, or a message out of turn
  wrong_secret,  ///< the proof does not match
  scope_closed,  ///< the communicator is not open yet, or complete; may change
  full,          ///< too many connections or too much data; may change
  rank_taken,    ///< this rank is connected already
  wrong_size,    ///< the ranks disagree about how many they are
  stopping,      ///< the process that hosts the store is leaving
  timed_out,     ///< the time of a Get is up
};
constexpr FailureReason last_of(FailureReason) {
  return FailureReason::timed_out;
}

using handshake::Challenge;
using handshake::Hello;
using handshake::Welcome;
using Join = handshake::Claim<Membership>;
using Refusal = handshake::Refusal<FailureReason>;

/// This request failed; the connection continues.
struct Failure {
  FailureReason reason;
  std::string text;
  bool operator==(const Failure&) const = default;
};

struct Put {
  std::string key;
  std::vector<std::byte> value;
  bool operator==(const Put&) const = default;
};
struct Get {
  std::string key;
  std::uint32_t milliseconds;  ///< how long to wait; the largest value means for ever
  bool operator==(const Get&) const = default;
};
struct TryGet {
  std::string key;
  bool operator==(const TryGet&) const = default;
};
struct Done {
  bool operator==(const Done&) const = default;
};
struct Absent {
  bool operator==(const Absent&) const = default;
};
struct Value {
  std::vector<std::byte> value;
  bool operator==(const Value&) const = default;
};

using StoreMessage = std::variant<Hello, Challenge, Join, Welcome, Refusal, Put, Get, TryGet, Done,
                                  Absent, Value, Failure>;
/// The type of a message that holds another one, sealed.
inline constexpr std::uint16_t sealed_type = std::variant_size_v<StoreMessage> + 1;

/// A whole frame, header included. Texts are cut to handshake::max_text bytes.
std::vector<std::byte> encode(const StoreMessage& message);
/// Throws MalformedMessage.
StoreMessage decode(std::uint16_t type, std::span<const std::byte> payload);

/// Throw InvalidArgument for what the protocol cannot carry.
void check_key(std::string_view key);
void check_value(std::string_view key, std::span<const std::byte> value);

/// The messages of one end of a connection: in clear up to the Welcome, and sealed from then on.
class Conversation {
 public:
  /// `limit` is that of a payload.
  explicit Conversation(std::size_t limit) : reader_(protocol, limit) {}

  /// Seals all later messages, and takes sealed ones only.
  void seal(SealedPair seals, std::size_t limit);

  /// A whole frame, header included.
  std::vector<std::byte> encode(const StoreMessage& message);
  /// Takes the bytes that arrive: see PayloadReader. Throw MalformedMessage.
  std::span<std::byte> space() { return reader_.space(); }
  void commit(std::size_t count) { reader_.commit(count); }
  std::optional<StoreMessage> take();
  bool inside_message() const { return reader_.inside_message(); }

 private:
  PayloadReader reader_;
  std::optional<SealedPair> seals_;
};

}  // namespace capstan::wire
