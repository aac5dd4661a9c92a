// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/wait_board.hpp"

#include <algorithm>
#include <cstddef>

namespace capstan {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

}  // namespace

WaitBoard::WaitBoard(Transport& world, Rank self, ByRank<Process> processes, milliseconds timeout)
    : world_(world),
      self_(self),
      processes_(std::move(processes)),
      beat_interval_(std::clamp<milliseconds>(timeout / 10, 20ms, 1s)),
      quiet_limit_(std::clamp<milliseconds>(timeout / 2, 100ms, 5s)),
      seen_(processes_.size()) {
  for (int rank = 0; rank < processes_.size(); ++rank) {
    if (Rank{rank} == self_) continue;
    others_.emplace_back(rank);
    if (!world_.link(Rank{rank}).mapped) posted_.emplace_back(rank);
  }
}

/// Peers on this host see each beat. Those on others are told of waits that last, and of these now
/// and then.
void WaitBoard::tell(const Wait& wait, Clock::time_point now) {
  if (told_.kind == Wait::Kind::none) told_hosts_ = now;
  told_ = wait;
  publish(control_of(world_.segment().data()).wait, told_, ++beat_);
  if (now - told_hosts_ < beat_interval_) return;
  told_hosts_ = now;
  hosts_know_ = true;
  send_to_hosts();
}

void WaitBoard::give_up(std::vector<Rank> culprits, bool lost) {
  std::erase(culprits, self_);
  if (culprits.empty()) return;
  Wait wait = told_;
  wait.gave_up = true;
  wait.lost = lost;
  wait.peer_count = static_cast<int>(culprits.size());
  wait.peers = std::move(culprits);
  hosts_know_ = true;
  publish_now(wait);
}

void WaitBoard::publish_now(const Wait& wait) {
  told_ = wait;
  publish(control_of(world_.segment().data()).wait, told_, ++beat_);
  if (std::exchange(hosts_know_, wait.gave_up)) send_to_hosts();
}

/// Each push is short enough to be copied at once, so that the record may change again.
void WaitBoard::send_to_hosts() {
  static_assert(sizeof(WaitRecord) == 2 * Transport::snapshot.value());
  for (const Rank peer : posted_) {
    constexpr Bytes at{offsetof(Control, wait)};
    world_.push(peer, at, Transport::snapshot);
    world_.push(peer, at + Transport::snapshot, Transport::snapshot);
    world_.wake(world_.link(peer));
  }
}

void WaitBoard::look(Clock::time_point now) {
  for (const Rank peer : others_) {
    Seen& seen = seen_[peer];
    const Control& theirs = control(peer);
    const std::uint64_t calls = theirs.finished.calls.load(std::memory_order_relaxed);
    const auto published = read(theirs.wait);
    const bool moved = calls != seen.calls || (published && published->beat != seen.beat);
    if (moved || seen.moved == Clock::time_point{}) seen.moved = now;
    seen.calls = calls;
    if (!published) continue;  // it is being written; the next look finds it
    seen.beat = published->beat;
    seen.wait = published->wait;
    std::erase_if(seen.wait.peers,
                  [&](Rank rank) { return rank.value() < 0 || rank.value() >= processes_.size(); });
  }
}

}  // namespace capstan
