#include "transports/mirrored_transport.hpp"

#include <fmt/format.h>

#include "core/ir/error.hpp"

namespace capstan {

MirroredTransport::MirroredTransport(Rank self, int ranks, Bytes segment, std::byte* shared)
    : self_(self),
      mirrors_(ranks > 0 ? static_cast<std::size_t>(ranks) : 0),
      links_(mirrors_.size()) {
  require_segment_size(segment);
  if (!shared) {
    own_ = Mapping::anonymous(segment);
    shared = own_.data();
  }
  segment_ = {shared, segment.value()};
  links_[index(self)] = {.segment = shared};
}

std::size_t MirroredTransport::index(Rank peer) const {
  if (peer.value() < 0 || static_cast<std::size_t>(peer.value()) >= links_.size())
    throw InvalidArgument(fmt::format("rank {}: there is no rank {} among {} ranks", self_.value(),
                                      peer.value(), links_.size()));
  return static_cast<std::size_t>(peer.value());
}

void MirroredTransport::make_mirror(Rank peer) {
  Mapping& mirror = mirrors_[index(peer)];
  mirror = Mapping::anonymous(Bytes{segment_.size()});
  links_[index(peer)] = {.segment = mirror.data(), .doorbell = &always_};
}

}  // namespace capstan
