// SPDX-License-Identifier: Apache-2.0
#include "core/platform/net/job_key.hpp"

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

}  // namespace capstan
