// SPDX-License-Identifier: Apache-2.0
#include "transports/compose/faulty/faulty_transport.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "capstan/error.hpp"

namespace capstan {
namespace {

using namespace std::chrono_literals;

/// Calls of progress() between two checks whether a peer that receives nothing is still there.
constexpr std::uint64_t calls_between_looks = 256;

std::byte* shown_part(Transport& inner, const faulty::StreamLayout& layout) {
  if (Bytes{inner.segment().size()} != layout.total())
    throw InvalidArgument(
        fmt::format("a transport with faults needs an inner segment of {} bytes, not {}; ask "
                    "FaultyTransport::inner_segment()",
                    layout.total().value(), inner.segment().size()));
  return inner.segment().data();
}

}  // namespace

Bytes FaultyTransport::inner_segment(Bytes segment, int ranks) {
  require_segment_size(segment);
  return faulty::StreamLayout{segment, ranks}.total();
}

FaultyTransport::FaultyTransport(std::unique_ptr<Transport> inner, Rank self, int ranks,
                                 Bytes segment, FaultPlan plan)
    : MirroredTransport(self, ranks, segment, shown_part(*inner, {segment, ranks})),
      inner_(std::move(inner)),
      plan_(std::move(plan)),
      layout_{segment, ranks},
      name_(fmt::format("faulty {}", inner_->name())),
      connections_(static_cast<std::size_t>(ranks)) {
  open_connections();
}

FaultyTransport::~FaultyTransport() {
  linger();
}

void FaultyTransport::connect(std::span<const Address> addresses, Deadline deadline) {
  inner_->connect(addresses, deadline);
  const std::lock_guard lock{mutex_};
  open_connections();
}

void FaultyTransport::open_connections() {
  for (int rank = 0; rank < ranks(); ++rank) {
    const Rank peer{rank};
    if (peer == self() || connection(peer) || !inner_->link(peer).segment) continue;
    make_mirror(peer);
    connections_[index(peer)] = std::make_unique<Connection>(Connection{
        .out = {*inner_, layout_, self(), peer}, .in = {*inner_, layout_, self(), peer, plan_}});
  }
  if (!nudged_ && inner_->descriptor() >= 0) nudged_.emplace(inner_->descriptor());
}

// --- Moving bytes ---

void FaultyTransport::push(Rank peer, Bytes offset, Bytes length) {
  post(peer, offset, nullptr, length);
}

void FaultyTransport::push_from(Rank peer, Bytes offset, const void* from, Bytes length) {
  post(peer, offset, from, length);
}

void FaultyTransport::post(Rank peer, Bytes offset, const void* from, Bytes length) {
  const Bytes size{segment().size()};
  if (offset > size || length > size - offset)
    throw InvalidArgument(fmt::format("rank {}: {} bytes at {} of a segment of {} bytes",
                                      self().value(), length.value(), offset.value(),
                                      size.value()));
  const std::lock_guard lock{mutex_};
  if (Connection* to = connection(peer)) to->out.push(offset, from, length);
}

void FaultyTransport::ring(const Link& link) {
  const Rank peer = peer_of(link);
  const std::lock_guard lock{mutex_};
  Connection& to = *connection(peer);
  to.out.release();
  to.out.pump();
  to.settled = to.settled && to.out.settled();
  inner_->wake(inner_->link(peer));
}

bool FaultyTransport::pushed(Rank peer) const {
  const std::lock_guard lock{mutex_};
  const Connection* to = connection(peer);
  return !to || to->settled;
}

void FaultyTransport::progress() {
  const std::lock_guard lock{mutex_};
  inner_->progress();
  const auto with_news = std::ranges::count_if(
      connections_, [](const auto& from) { return from && from->in.has_news(); });
  held_back_ = false;
  for (int rank = 0; rank < ranks(); ++rank) {
    if (Connection* peer = connection(Rank{rank})) serve(Rank{rank}, *peer, with_news > 1);
  }
  if (preparing_ && held_back_ && nudged_) nudged_->nudge();
}

void FaultyTransport::serve(Rank peer, Connection& connection, bool others_have_news) {
  auto& [out, in, settled, waited] = connection;
  bool has_sent = in.break_if_due();
  has_sent |= out.pump();
  if (in.has_news() && !(others_have_news && in.skipped())) has_sent |= in.take(mirror(peer));
  if (in.broken()) out.abandon();
  if (has_sent) inner_->wake(inner_->link(peer));

  held_back_ |= in.has_news();
  settled = out.settled();
  waited = settled ? 0 : waited + 1;
  if (waited % calls_between_looks == calls_between_looks - 1)
    abandon_if_departed(peer, connection);
}

void FaultyTransport::abandon_if_departed(Rank peer, Connection& connection) {
  if (inner_->departed(peer)) connection.out.abandon();
}

// --- Sleeping ---

void FaultyTransport::prepare_to_sleep() {
  const std::lock_guard lock{mutex_};
  preparing_ = true;
  if (nudged_) nudged_->reset();
  inner_->prepare_to_sleep();
}

void FaultyTransport::sleep(std::chrono::nanoseconds at_most) {
  double part = 0;
  {
    const std::lock_guard lock{mutex_};
    preparing_ = false;
    if (!held_back_) part = faulty::part_of_sleep(plan_, self(), sleeps_++);
  }
  if (part == 0) return cancel_sleep();
  if (part < 1) {
    const std::chrono::duration<double> most = std::min<std::chrono::nanoseconds>(at_most, 24h);
    at_most = std::chrono::floor<std::chrono::nanoseconds>(most * part);
  }
  inner_->sleep(at_most);
}

void FaultyTransport::cancel_sleep() {
  const std::lock_guard lock{mutex_};
  preparing_ = false;
  inner_->cancel_sleep();
}

void FaultyTransport::detach_sources(Rank peer) {
  const std::lock_guard lock{mutex_};
  if (Connection* to = connection(peer)) to->out.detach();
}

// --- Leaving ---

bool FaultyTransport::watch(Rank peer) {
  const std::lock_guard lock{mutex_};
  return inner_->watch(peer);
}

std::optional<std::string> FaultyTransport::departed(Rank peer) {
  const std::lock_guard lock{mutex_};
  Connection* from = connection(peer);
  if (from && from->in.broken()) return from->in.broken();
  auto reason = inner_->departed(peer);
  if (!reason || !from) return reason;
  inner_->progress();  // receives what arrived before the peer left
  return from->in.has_news() ? std::nullopt : reason;
}

void FaultyTransport::end_soon() {
  longest_linger_ = farewell;
  inner_->end_soon();
}

/// Sends the released pushes, which count as published although there was no room for them yet.
void FaultyTransport::linger() {
  const Deadline deadline = Deadline::in(longest_linger_);
  for (int rank = 0; rank < ranks(); ++rank) {
    Connection* to = connection(Rank{rank});
    while (to && to->out.unsent() && !deadline.expired()) {
      inner_->progress();
      if (to->out.pump())
        inner_->wake(inner_->link(Rank{rank}));
      else
        abandon_if_departed(Rank{rank}, *to);
      std::this_thread::yield();
    }
  }
}

}  // namespace capstan
