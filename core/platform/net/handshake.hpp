// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/platform/net/message.hpp"
#include "core/platform/net/sealed.hpp"
#include "core/platform/net/secret.hpp"

/// On a new connection, two processes prove to each other that they know the same secret:
///
///   initiator                              acceptor
///   Hello{nonce i}                    ->
///                                     <-   Challenge{nonce a}
///   Claim{proof, claims}              ->                    both proofs are keyed hashes of
///                                     <-   Welcome{proof}   who speaks, i, a and the claims
///
/// The claims say who the initiator is; each protocol has its own. The initiator proves itself
/// first: an acceptor gives nothing away to strangers, not even a hash that a weak secret could be
/// guessed from. The acceptor may answer anything with Refusal and close. The secret never crosses
/// the wire. As each proof names its speaker, none can be sent back; as both nonces are new, none
/// can be replayed.
///
/// Proofs settle who may connect. Both ends then share keys for this connection alone, one for each
/// direction, by which later messages can be sealed (sealed.hpp).
///
/// Messages are pure data; message.hpp carries them.
namespace capstan::handshake {

/// The longest payload before an initiator has proved itself.
inline constexpr std::size_t max_payload = 128;
inline constexpr std::size_t max_text = 512;
/// The longest payload with which an acceptor answers.
inline constexpr std::size_t max_answer = 4 + max_text;

struct Hello {
  Nonce nonce;
  bool operator==(const Hello&) const = default;
};
struct Challenge {
  Nonce nonce;
  bool operator==(const Challenge&) const = default;
};
template <class Claims>
struct Claim {
  Digest proof;
  Claims claims;
  bool operator==(const Claim&) const = default;
};
struct Welcome {
  Digest proof;
  bool operator==(const Welcome&) const = default;
};
/// The acceptor closes the connection after it. `Reason` is the protocol's own enumeration of
/// 16 bits, whose last enumerator last_of(Reason) tells. The text is cut to `max_text`.
template <class Reason>
struct Refusal {
  Reason reason;
  std::string text;
  bool operator==(const Refusal&) const = default;
};

void write(ByteWriter& w, const Hello& m);
void read(ByteReader& r, Hello& m);
void write(ByteWriter& w, const Challenge& m);
void read(ByteReader& r, Challenge& m);
void write(ByteWriter& w, const Welcome& m);
void read(ByteReader& r, Welcome& m);

template <class Claims>
void write(ByteWriter& w, const Claim<Claims>& m) {
  w.raw(m.proof);
  write(w, m.claims);
}
template <class Claims>
void read(ByteReader& r, Claim<Claims>& m) {
  m.proof = r.block();
  read(r, m.claims);
}
template <class Reason>
void write(ByteWriter& w, const Refusal<Reason>& m) {
  w.number(static_cast<std::uint16_t>(m.reason));
  w.text(m.text, max_text);
}
template <class Reason>
void read(ByteReader& r, Refusal<Reason>& m) {
  const auto code = r.number<std::uint16_t>();
  if (code > static_cast<std::uint16_t>(last_of(Reason{}))) {
    bad_content("unknown reason " + std::to_string(code));
  }
  m = {static_cast<Reason>(code), r.text(0, max_text)};
}

/// The end that proves itself. As each proof names its speaker, none passes as the other end's.
enum class Speaker { initiator, acceptor };

/// The keyed hash of `speaker`, both nonces and the claims.
Digest prove(Speaker speaker, const Nonce& initiator, const Nonce& acceptor,
             std::span<const std::byte> claims, const Secret& secret);

/// The keys of a connection, which depend on all that was said in its handshake.
struct SessionKeys {
  Secret of_initiator;  ///< for what it sends
  Secret of_acceptor;

  SealedPair for_initiator() const { return {Sealer{of_initiator}, Unsealer{of_acceptor}}; }
  SealedPair for_acceptor() const { return {Sealer{of_acceptor}, Unsealer{of_initiator}}; }
};
SessionKeys session_keys(const Nonce& initiator, const Nonce& acceptor,
                         std::span<const std::byte> claims, const Secret& secret);

template <class Claims>
std::vector<std::byte> encoded(const Claims& claims) {
  ByteWriter w;
  write(w, claims);
  return w.take();
}

/// The end that has opened the connection. Sends hello(), and claim() for the Challenge.
class Initiator {
 public:
  /// Draws a nonce. Throws SystemError.
  Initiator();

  Hello hello() const { return {nonce_}; }
  template <class Claims>
  Claim<Claims> claim(const Challenge& challenge, Claims claims, const Secret& secret) {
    const auto bytes = encoded(claims);
    expected_ = prove(Speaker::acceptor, nonce_, challenge.nonce, bytes, secret);
    keys_ = session_keys(nonce_, challenge.nonce, bytes, secret);
    return {prove(Speaker::initiator, nonce_, challenge.nonce, bytes, secret), std::move(claims)};
  }
  /// The claim has been made.
  bool claimed() const { return expected_.has_value(); }
  /// Whether the acceptor has proved that it knows the secret.
  bool trusts(const Welcome& welcome) const;
  /// The keys of the connection. Throws std::bad_optional_access before the claim.
  const SessionKeys& keys() const { return keys_.value(); }

 private:
  Nonce nonce_;
  std::optional<Digest> expected_;
  std::optional<SessionKeys> keys_;
};

/// The end that has accepted the connection. Answers the Hello with challenge(), and a Claim that
/// it trusts() with welcome().
class Acceptor {
 public:
  /// Draws a nonce. Throws SystemError.
  Challenge challenge(const Hello& hello);
  /// The challenge has been given.
  bool challenged() const { return nonces_.has_value(); }
  /// Whether the initiator has proved that it knows the secret.
  template <class Claims>
  bool trusts(const Claim<Claims>& claim, const Secret& secret) const {
    return same_proof(claim.proof, proof_of(Speaker::initiator, encoded(claim.claims), secret));
  }
  template <class Claims>
  Welcome welcome(const Claim<Claims>& claim, const Secret& secret) const {
    return {proof_of(Speaker::acceptor, encoded(claim.claims), secret)};
  }
  /// The keys of the connection, after a claim that it trusts().
  template <class Claims>
  SessionKeys keys(const Claim<Claims>& claim, const Secret& secret) const {
    return session_keys(nonces_.value().initiator, nonces_.value().acceptor, encoded(claim.claims),
                        secret);
  }

 private:
  struct Nonces {
    Nonce initiator;
    Nonce acceptor;
  };
  /// Throws std::bad_optional_access before the challenge.
  Digest proof_of(Speaker speaker, std::span<const std::byte> claims, const Secret& secret) const {
    return prove(speaker, nonces_.value().initiator, nonces_.value().acceptor, claims, secret);
  }

  std::optional<Nonces> nonces_;
};

}  // namespace capstan::handshake
