// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/job_key.hpp"

#include <cstring>

#include "core/platform/net/message.hpp"

namespace capstan {

JobKey::JobKey(const Secret& secret, const Nonce& nonce)
    : key_(secret.child("capstan world key v1", nonce)) {}

Secret JobKey::between(std::string_view purpose, const End& first, const End& second) const {
  ByteWriter context;
  for (const End& end : {first, second}) {
    context.number(end.rank);
    context.raw(end.id);
  }
  return key_.child(purpose, context.take());
}

std::uint64_t JobKey::mark() const {
  constexpr std::string_view purpose = "capstan world mark v1";
  const Digest digest = key_.proof(std::as_bytes(std::span{purpose}));
  std::uint64_t mark = 0;
  std::memcpy(&mark, digest.data(), sizeof mark);
  return mark;
}

}  // namespace capstan
