// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/platform/net/handshake.hpp"
#include "core/platform/net/job_key.hpp"

/// Two ranks recognise each other on a new connection by the handshake of
/// core/platform/net/handshake.hpp, whose initiator is the rank that opened the connection. The
/// secret is derived from the key of their world for this pair of ranks and of transports.
///
/// Both ranks may open a connection at the same time. The lower rank alone then chooses the
/// connection that is used: the first on which the higher rank has proved itself. As acceptor the
/// lower rank chooses by its Welcome; as initiator, by a Choice that it sends after the Welcome. It
/// answers later claims with Refusal{crossed}. Frames follow the choice.
namespace capstan::tcp {

/// The claims of the initiator.
struct Identity {
  std::uint64_t segment = 0;  ///< bytes
  std::int32_t from = 0;      ///< ranks
  std::int32_t to = 0;
  std::int32_t ranks = 0;  ///< how many there are
  bool operator==(const Identity&) const = default;
};

enum class RefusalReason : std::uint16_t {
  malformed,      ///< bytes that are not this protocol, or a message out of turn
  other_version,  ///< of this protocol
  wrong_rank,     ///< the acceptor is another rank, or knows no such initiator
  wrong_segment,  ///< the acceptor's has another size
  wrong_secret,   ///< the proof does not match
  crossed,        ///< the acceptor uses another connection to the initiator
};
constexpr RefusalReason last_of(RefusalReason) {
  return RefusalReason::crossed;
}

/// Sent by the lower rank, which has opened the connection and now chooses it.
struct Choice {
  bool operator==(const Choice&) const = default;
};

using handshake::Challenge;
using handshake::Hello;
using handshake::Welcome;
using Claim = handshake::Claim<Identity>;
using Refusal = handshake::Refusal<RefusalReason>;
using HandshakeMessage = std::variant<Hello, Challenge, Claim, Welcome, Refusal, Choice>;

void write(ByteWriter& w, const Identity& m);
void read(ByteReader& r, Identity& m);

/// The protocol's id. It differs between byte orders, as frames are in the machine's byte order.
inline constexpr ProtocolId protocol{
    .magic = {'C', 'P', 'T', std::endian::native == std::endian::little ? 'L' : 'B'},
    .version = 3,
    .name = "Capstan's TCP protocol",
};

/// Collects messages from a connection.
class HandshakeReader : public PayloadReader {
 public:
  explicit HandshakeReader(std::size_t limit) : PayloadReader(protocol, limit) {}
  /// The message, if it is complete. Throws MalformedMessage.
  std::optional<HandshakeMessage> take();
};
std::vector<std::byte> encode(const HandshakeMessage& message);

/// The secret that both ends of a connection prove to know.
Secret secret_of(const JobKey& key, const JobKey::End& initiator, const JobKey::End& acceptor);

/// The answer to a claim, or to bytes that are none, with a text for the rank that is refused.
/// `segment` is the acceptor's, in bytes.
Refusal refusal(RefusalReason reason, std::uint64_t segment);

}  // namespace capstan::tcp
