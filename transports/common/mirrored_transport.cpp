// SPDX-License-Identifier: Apache-2.0
#include "transports/common/mirrored_transport.hpp"

#include "transports/common/requirements.hpp"

namespace capstan {

MirroredTransport::MirroredTransport(Rank self, int ranks, Bytes segment, Borrowed memory,
                                     Bytes hidden)
    : self_(self),
      hidden_(hidden),
      borrowed_mirrors_(memory.mirrors),
      own_mirrors_(ranks > 0 ? static_cast<std::size_t>(ranks) : 0),
      mirrors_(own_mirrors_.size()),
      links_(own_mirrors_.size()) {
  require_segment_size(segment);
  if (!memory.segment) {
    own_ = Mapping::anonymous(segment + hidden);
    memory.segment = own_.data();
  }
  segment_ = {memory.segment, segment.value()};
  links_[index(self)] = {.segment = memory.segment};
}

std::size_t MirroredTransport::index(Rank peer) const {
  return require_rank(self_, peer, links_.size());
}

void MirroredTransport::make_mirror(Rank peer) {
  const std::size_t rank = index(peer);
  if (!borrowed_mirrors_.empty()) {
    mirrors_[rank] = borrowed_mirrors_[rank];
  } else {
    own_mirrors_[rank] = Mapping::anonymous(Bytes{segment_.size()} + hidden_);
    mirrors_[rank] = own_mirrors_[rank].data();
  }
  links_[rank] = {.segment = mirrors_[rank], .doorbell = &always_};
}

}  // namespace capstan
