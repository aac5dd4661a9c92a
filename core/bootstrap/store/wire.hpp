#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// The protocol between a store's clients and its server. Every frame is a header of 12 bytes,
///
///   magic "CPST" | u16 version | u16 type | u32 length of the payload        (little-endian)
///
/// and a payload. A connection goes
///
///   client                                     server
///   Hello{nonce c}                       ->
///                                        <-    Challenge{nonce s}
///   Join{proof, rank, size, scope}       ->                    both proofs are keyed hashes of
///                                        <-    Welcome{proof}  who speaks, c, s and the Join
///   Put | Get | TryGet                   ->
///                                        <-    Done | Value | Absent | Failure     and so on
///
/// with one request at a time; a Get is answered when the key is there or its time is up. The
/// server may answer anything with Refusal and close. Proofs settle who may join; what follows
/// is neither encrypted nor signed, so it is as private as the network it crosses.
namespace capstan::wire {

inline constexpr std::uint16_t version = 1;
inline constexpr std::size_t header_size = 12;
inline constexpr std::size_t max_key = 256;
inline constexpr std::size_t max_value = 64 * 1024;
inline constexpr std::size_t max_text = 512;
inline constexpr std::size_t max_scope = 64;
/// The longest payload before a client is known to hold the secret, and afterwards.
inline constexpr std::size_t max_handshake_payload = 128;
inline constexpr std::size_t max_payload = 2 + max_key + max_value;

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

struct Hello {
  Nonce nonce;
  bool operator==(const Hello&) const = default;
};
struct Challenge {
  Nonce nonce;
  bool operator==(const Challenge&) const = default;
};
/// Rank -1 is a client that is no rank (a launcher, a tool); then size means nothing.
struct Join {
  Proof proof;
  std::int32_t rank;
  std::int32_t size;
  std::string scope;
  bool operator==(const Join&) const = default;
};
struct Welcome {
  Proof proof;
  bool operator==(const Welcome&) const = default;
};

enum class Reason : std::uint16_t {
  malformed,     ///< bytes that are not this protocol, or a message out of turn
  wrong_secret,  ///< the proof does not match
  scope_closed,  ///< the communicator is not open yet, or complete; may change
  full,          ///< too many connections or too much data; may change
  rank_taken,    ///< this rank is connected already
  wrong_size,    ///< the ranks disagree about how many they are
  stopping,      ///< the process that hosts the store is leaving
  timed_out,     ///< the time of a Get is up
};
/// The server closes the connection after it.
struct Refusal {
  Reason reason;
  std::string text;
  bool operator==(const Refusal&) const = default;
};
/// This request failed; the connection goes on.
struct Failure {
  Reason reason;
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

/// A frame's type is its position in this list, counted from 1.
using Message = std::variant<Hello, Challenge, Join, Welcome, Refusal, Put, Get, TryGet, Done,
                             Absent, Value, Failure>;

/// Bytes that do not follow the protocol.
class Malformed : public std::runtime_error {
 public:
  enum class Kind { not_capstan, other_version, bad_content };
  Malformed(Kind kind, const std::string& text) : std::runtime_error(text), kind_(kind) {}
  Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

/// What both proofs sign. `speaker` is "client" or "server", so that neither can be replayed as
/// the other.
std::vector<std::byte> transcript(std::string_view speaker, const Nonce& client,
                                  const Nonce& server, const Join& join);

/// A whole frame, header included. Texts are cut to `max_text`.
std::vector<std::byte> encode(const Message& message);
/// Throws Malformed.
Message decode(std::uint16_t type, std::span<const std::byte> payload);

/// Throw InvalidArgument for what the protocol cannot carry.
void check_key(std::string_view key);
void check_value(std::string_view key, std::span<const std::byte> value);

/// Collects one frame at a time, and never holds more than a header or a payload within `limit`.
/// Read into `space()`, tell how much with `commit()`, then ask `take()`. After Malformed the
/// reader is of no more use.
class FrameReader {
 public:
  explicit FrameReader(std::size_t limit) : limit_(limit), buffer_(header_size) {}

  void set_limit(std::size_t limit) { limit_ = limit; }
  /// Where the next bytes go; never empty.
  std::span<std::byte> space() { return std::span{buffer_}.subspan(filled_); }
  /// Throws Malformed if a header is complete and wrong.
  void commit(std::size_t count);
  /// The message, if a frame is complete. Throws Malformed.
  std::optional<Message> take();
  /// True between the first byte of a frame and its last.
  bool inside_frame() const { return filled_ > 0 || in_payload_; }

 private:
  void parse_header();

  std::size_t limit_;
  std::vector<std::byte> buffer_;
  std::size_t filled_ = 0;
  std::uint16_t type_ = 0;
  bool in_payload_ = false;
  bool complete_ = false;
};

}  // namespace capstan::wire
