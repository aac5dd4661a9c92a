#include "core/runtime/peer_watch.hpp"

#include <fmt/format.h>

#include "core/ir/error.hpp"

namespace capstan {

const Control& PeerWatch::control(int peer) const {
  return control_of(transport_.link(Rank{peer}).segment);
}

void PeerWatch::check_aborts() const {
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == self_.value()) continue;
    if (const auto failure = read(control(peer).abort)) failure->raise();
  }
}

void PeerWatch::check_departures(std::uint64_t blocks, const std::string& position) const {
  for (int peer = 0; peer < ranks_; ++peer) {
    if (peer == self_.value()) continue;
    const Control& theirs = control(peer);
    const bool left = theirs.left.load(std::memory_order_acquire) != 0;
    const auto reason = left ? std::optional<std::string>{"it left the communicator"}
                             : transport_.departed(Rank{peer});
    // Read last: what a peer finished before it went counts.
    if (!reason || theirs.finished.load(std::memory_order_acquire) >= blocks) continue;
    // It may have gone because of somebody else's failure, which it has published then.
    check_aborts();
    throw PeerLost(Rank{peer},
                   fmt::format("rank {} lost rank {} ({}) in {}: find out why rank {} ended; the "
                               "communicator can no longer be used",
                               self_.value(), peer, *reason, position, peer));
  }
}

}  // namespace capstan
