// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/handshake.hpp"

#include <fmt/format.h>

namespace capstan::tcp {
namespace {

std::string text_of(RefusalReason reason, std::uint64_t segment) {
  switch (reason) {
    case RefusalReason::malformed:
      return "it does not understand this rank";
    case RefusalReason::other_version:
      return "it speaks another version of the protocol: use the same release of Capstan on all "
             "ranks";
    case RefusalReason::wrong_rank:
      return "it is another rank, or of another job";
    case RefusalReason::wrong_segment:
      return fmt::format("its segment has {} bytes: give all ranks the same size", segment);
    case RefusalReason::wrong_secret:
      return "it does not accept this rank's proof of the job's secret";
    case RefusalReason::crossed:
      return "it has another connection to this rank";
  }
  return "it gives no reason";
}

}  // namespace

void write(ByteWriter& w, const Identity& m) {
  w.number(m.segment);
  w.number(m.from);
  w.number(m.to);
  w.number(m.ranks);
}
void read(ByteReader& r, Identity& m) {
  // Braces fix the order in which the fields are read.
  m = {r.number<std::uint64_t>(), r.signed_number(), r.signed_number(), r.signed_number()};
}
void write(ByteWriter&, const Choice&) {}
void read(ByteReader&, Choice&) {}

std::vector<std::byte> encode(const HandshakeMessage& message) {
  return encode_message(protocol, message);
}

std::optional<HandshakeMessage> HandshakeReader::take() {
  const auto payload = take_payload();
  if (!payload) return std::nullopt;
  return decode_message<HandshakeMessage>(payload->type, payload->bytes);
}

Secret secret_of(const JobKey& key, const JobKey::End& initiator, const JobKey::End& acceptor) {
  return key.between("capstan tcp handshake v2", initiator, acceptor);
}

Refusal refusal(RefusalReason reason, std::uint64_t segment) {
  return {reason, text_of(reason, segment)};
}

}  // namespace capstan::tcp
