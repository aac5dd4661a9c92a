#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/net/random.hpp"
#include "core/net/secret.hpp"
#include "transports/tcp/frame.hpp"

/// How two ranks recognise each other on a new connection. One of them opened it:
///
///   opener                                   acceptor
///   Hello{ranks, segment, nonce o}      ->
///                                       <-   Reply{nonce a, proof}
///   Proof{proof}                        ->
///                                       <-   Welcome     only if the acceptor is the lower rank
///   frames                             <->   frames
///
/// Both proofs are keyed hashes (HMAC-SHA-512-256) of who speaks, the Hello and both nonces. The
/// key is derived from the tokens in the two ranks' addresses, which only the job knows and which
/// never cross the wire. The acceptor may answer anything with Refusal and close.
///
/// Both may open at the same time. Which connection is used is then the lower rank's choice alone:
/// it chooses the first that is proved to it, by sending its Proof where it is the opener and a
/// Welcome where it is the acceptor, and answers the others with Refusal{crossed}.
///
/// Proofs settle who may connect; frames are neither encrypted nor signed, so they are as private
/// as the network that they cross.
namespace capstan::tcp {

/// In front of every message, in all versions.
struct Prefix {
  static constexpr std::uint32_t capstan_tcp = 0x7063'7443;  // "Ctcp" on this machine
  static constexpr std::uint16_t current_version = 1;

  std::uint32_t magic = capstan_tcp;
  std::uint16_t version = current_version;
  std::uint16_t type = 0;
  bool operator==(const Prefix&) const = default;
};

struct Hello {
  static constexpr std::uint16_t type = 1;
  Prefix prefix{.type = type};
  std::uint64_t segment = 0;  // bytes
  std::int32_t from = 0;      // ranks
  std::int32_t to = 0;
  std::int32_t ranks = 0;  // how many there are
  std::uint32_t unused = 0;
  Nonce nonce{};
  bool operator==(const Hello&) const = default;
};
struct Reply {
  static constexpr std::uint16_t type = 2;
  Prefix prefix{.type = type};
  Nonce nonce{};
  Digest proof{};
  bool operator==(const Reply&) const = default;
};
struct Proof {
  static constexpr std::uint16_t type = 3;
  Prefix prefix{.type = type};
  Digest proof{};
  bool operator==(const Proof&) const = default;
};
struct Welcome {
  static constexpr std::uint16_t type = 4;
  Prefix prefix{.type = type};
  bool operator==(const Welcome&) const = default;
};

enum class Reason : std::uint32_t {
  malformed,      ///< bytes that are not this protocol, or a message out of turn
  other_version,  ///< of this protocol
  wrong_rank,     ///< the acceptor is another rank, or knows no such opener
  wrong_segment,  ///< `detail`: the size of the acceptor's
  wrong_token,    ///< the proof does not match
  crossed,        ///< the acceptor uses another connection to the opener
};
struct Refusal {
  static constexpr std::uint16_t type = 5;
  Prefix prefix{.type = type};
  Reason reason = Reason::malformed;
  std::uint32_t unused = 0;
  std::uint64_t detail = 0;
  bool operator==(const Refusal&) const = default;
};

using Message = std::variant<Hello, Reply, Proof, Welcome, Refusal>;

/// A whole message as it goes over the wire.
template <class T>
std::span<const std::byte> bytes_of(const T& message) {
  static_assert(std::has_unique_object_representations_v<T>);
  return std::as_bytes(std::span{&message, 1});
}

/// What a Refusal means, for the one who is refused.
std::string describe(const Refusal& refusal);

/// Collects one message at a time, and never more of a stream than belongs to it. Pure. Read into
/// `space()`, tell how much with `commit()`, then ask `take()`.
class MessageReader {
 public:
  /// Where the next bytes go; never empty.
  std::span<std::byte> space() { return std::span{buffer_}.first(wanted_).subspan(filled_); }
  /// Throws Malformed for the start of what cannot be a message; the reader is of no more use then.
  void commit(std::size_t count);
  /// The message, if it is complete. Throws Malformed for one that makes no sense.
  std::optional<Message> take();
  bool inside_message() const { return filled_ > 0; }
  /// Whether it failed because the other end speaks another version.
  bool other_version() const { return other_version_; }

 private:
  static constexpr std::size_t longest = 72;
  static_assert(sizeof(Hello) <= longest && sizeof(Reply) <= longest);

  Prefix prefix() const;

  std::array<std::byte, longest> buffer_{};
  std::size_t wanted_ = sizeof(Prefix);
  std::size_t filled_ = 0;
  bool other_version_ = false;
};

enum class Speaker : std::uint8_t { opener, acceptor };

/// The proof of `speaker` in the handshake that `hello` began.
Digest prove(Speaker speaker, const Token& opener, const Token& acceptor, const Hello& hello,
             const Nonce& acceptor_nonce);
/// Compares in constant time.
bool same(const Digest& a, const Digest& b);

}  // namespace capstan::tcp
