// SPDX-License-Identifier: Apache-2.0
#include "core/engine/run/watchdog.hpp"

namespace capstan {

void Watchdog::check_aborts() const {
  if (const auto failure = failure_among(peers_.others())) failure->raise();
}

std::optional<Failure> Watchdog::failure_among(const std::vector<Rank>& peers) const {
  for (const Rank peer : peers)
    if (auto failure = read(peers_.control(peer).abort, peers_.count())) return failure;
  return std::nullopt;
}

std::vector<std::pair<Rank, std::string>> Watchdog::lost(std::uint64_t blocks) const {
  std::vector<std::pair<Rank, std::string>> all;
  for (const Rank peer : peers_.others()) {
    const auto reason = departed(peer);
    // Read last, so that blocks that the peer finished before it ended count.
    if (reason && peers_.control(peer).finished.blocks.load(std::memory_order_acquire) < blocks)
      all.emplace_back(peer, *reason);
  }
  // A peer may have ended because of another rank's failure, which it has then published.
  if (!all.empty()) check_aborts();
  return all;
}

std::optional<std::string> Watchdog::departed(Rank peer) const {
  if (peers_.left(peer)) return "it left the communicator";
  return peers_.transport().departed(peer);
}

}  // namespace capstan
