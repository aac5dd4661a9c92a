// SPDX-License-Identifier: Apache-2.0
#include "transports/common/requirements.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"

namespace capstan {

std::size_t require_rank(Rank self, Rank peer, std::size_t ranks) {
  if (peer.value() < 0 || static_cast<std::size_t>(peer.value()) >= ranks)
    throw InvalidArgument(fmt::format("rank {}: there is no rank {} among {} ranks", self.value(),
                                      peer.value(), ranks));
  return static_cast<std::size_t>(peer.value());
}

void require_connectable(Rank self, bool connected, std::size_t addresses, std::size_t ranks) {
  if (connected)
    throw InvalidArgument(fmt::format("rank {}: connect was called a second time", self.value()));
  if (addresses != ranks)
    throw InvalidArgument(
        fmt::format("rank {}: connect: {} addresses for {} ranks", self.value(), addresses, ranks));
}

}  // namespace capstan
