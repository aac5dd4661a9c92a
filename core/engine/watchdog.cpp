#include "core/engine/watchdog.hpp"

#include <fmt/format.h>

#include "capstan/error.hpp"

namespace capstan {

void Watchdog::check_aborts() const {
  if (const auto failure = failure_among(peers_.others())) failure->raise();
}

std::optional<Failure> Watchdog::failure_among(const std::vector<Rank>& peers) const {
  for (const Rank peer : peers)
    if (auto failure = read(peers_.control(peer).abort, peers_.count())) return failure;
  return std::nullopt;
}

void Watchdog::check_departures(std::uint64_t blocks, const std::string& position) const {
  for (const Rank peer : peers_.others()) {
    const Control& theirs = peers_.control(peer);
    const bool left = theirs.left.load(std::memory_order_acquire) != 0;
    const auto reason = left ? std::optional<std::string>{"it left the communicator"}
                             : peers_.transport().departed(peer);
    // Read last, so that blocks that the peer finished before it ended count.
    if (!reason || theirs.finished.blocks.load(std::memory_order_acquire) >= blocks) continue;
    // The peer may have ended because of another rank's failure, which it has then published.
    check_aborts();
    throw PeerLost(
        peer, fmt::format("rank {} lost rank {} ({}) in {}: find out why rank {} ended; the "
                          "communicator can no longer be used",
                          peers_.self().value(), peer.value(), *reason, position, peer.value()));
  }
}

}  // namespace capstan
