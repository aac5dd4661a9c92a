// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/handshake.hpp"

#include "core/platform/net/random.hpp"

namespace capstan::handshake {

void write(ByteWriter& w, const Hello& m) {
  w.raw(m.nonce);
}
void read(ByteReader& r, Hello& m) {
  m = {r.block()};
}
void write(ByteWriter& w, const Challenge& m) {
  w.raw(m.nonce);
}
void read(ByteReader& r, Challenge& m) {
  m = {r.block()};
}
void write(ByteWriter& w, const Welcome& m) {
  w.raw(m.proof);
}
void read(ByteReader& r, Welcome& m) {
  m = {r.block()};
}

Digest prove(Speaker speaker, const Nonce& initiator, const Nonce& acceptor,
             std::span<const std::byte> claims, const Secret& secret) {
  ByteWriter signed_bytes;
  signed_bytes.text(speaker == Speaker::initiator ? "client" : "server", max_text);
  signed_bytes.raw(initiator);
  signed_bytes.raw(acceptor);
  signed_bytes.raw(claims);
  return secret.proof(signed_bytes.take());
}

SessionKeys session_keys(const Nonce& initiator, const Nonce& acceptor,
                         std::span<const std::byte> claims, const Secret& secret) {
  ByteWriter transcript;
  transcript.raw(initiator);
  transcript.raw(acceptor);
  transcript.raw(claims);
  const auto context = transcript.take();
  return {secret.child("capstan session of initiator v1", context),
          secret.child("capstan session of acceptor v1", context)};
}

Initiator::Initiator() : nonce_(random_value<Nonce>()) {}

bool Initiator::trusts(const Welcome& welcome) const {
  return expected_ && same_proof(welcome.proof, *expected_);
}

Challenge Acceptor::challenge(const Hello& hello) {
  nonces_ = {hello.nonce, random_value<Nonce>()};
  return {nonces_->acceptor};
}

}  // namespace capstan::handshake
