// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/mapped_transport.hpp"

#include "transports/common/requirements.hpp"

namespace capstan::shm {

MappedTransport::MappedTransport(Rank self, int ranks, Scope scope, Header& header,
                                 std::span<std::byte> segment, bool use_membarrier, int bell)
    : self_(self),
      scope_(scope),
      segment_(segment),
      sleeper_(header.doorbell, scope, use_membarrier, bell),
      links_(ranks > 0 ? static_cast<std::size_t>(ranks) : 0),
      bells_(links_.size(), -1) {
  set_link(self, segment.data(), header, bell);
}

std::size_t MappedTransport::index(Rank peer) const {
  return require_rank(self_, peer, links_.size());
}

void MappedTransport::set_link(Rank peer, const std::byte* segment, Header& header, int bell,
                               const std::byte* writable_alias) {
  bells_[index(peer)] = bell;
  links_[index(peer)] = {
      .segment = segment, .writable_alias = writable_alias, .doorbell = &header.doorbell, .mapped = true};
}

}  // namespace capstan::shm
