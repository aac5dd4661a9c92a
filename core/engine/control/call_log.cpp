// SPDX-License-Identifier: Apache-2.0
#include "core/engine/control/call_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "capstan/error.hpp"

namespace capstan {

namespace {

CallMark mark_in(const CallRecord& record) {
  return {.signature = record.signature.load(std::memory_order_relaxed),
          .count = record.count.load(std::memory_order_relaxed),
          .root = record.root.load(std::memory_order_relaxed),
          .tensor = record.tensor.load(std::memory_order_relaxed)};
}

/// The key of a call's details, from its mark; never 0.
std::uint64_t key_of(const CallMark& mark) {
  return extend(mark.count, mark.root) | 1;
}

/// Whether all words are of the same call: the next call may be overwriting the record, or only a
/// part of the record may have arrived.
bool is_whole(std::uint64_t call, const CallMark& mark, const CallRecord& record) {
  const std::uint64_t history = record.history.load(std::memory_order_relaxed);
  return record.check.load(std::memory_order_relaxed) == record_check(call, mark.digest(), history);
}

}  // namespace

std::optional<CallMark> read(const CallRecord& record) {
  const std::uint64_t call = record.call.load(std::memory_order_acquire);
  const CallMark mark = mark_in(record);
  if (call == 0 || !is_whole(call, mark, record)) return std::nullopt;
  return mark;
}

CallLog::CallLog(Peers& peers)
    : peers_(peers),
      segment_(peers.own_segment()),
      checked_(peers.count()),
      shown_(peers.count()),
      shown_all_(peers.count()) {}

/// Runs before the call is published, so that a peer that sees the call also sees its buffers.
void CallLog::announce(const AnnouncedBuffers& buffers) {
  CallBuffers& own = own_buffers();
  own.input.store(reinterpret_cast<std::uint64_t>(buffers.input), std::memory_order_relaxed);
  own.output.store(reinterpret_cast<std::uint64_t>(buffers.output), std::memory_order_relaxed);
  own.allocations.store(
      buffers.input_allocation | static_cast<std::uint64_t>(buffers.output_allocation) << 32,
      std::memory_order_relaxed);
}

void CallLog::move_buffers(const void* input, void* output) {
  own_buffers().allocations.store(0, order);
  own_buffers().input.store(reinterpret_cast<std::uint64_t>(input), order);
  own_buffers().output.store(reinterpret_cast<std::uint64_t>(output), order);
}

/// False when the peer has not entered the call yet, or its record is not whole.
bool CallLog::compare_one(Rank peer, std::uint64_t call) const {
  const CallRecord& theirs = record(peer, call);
  const std::uint64_t recorded = theirs.call.load(std::memory_order_acquire);
  if (recorded != call) return recorded > call;
  const CallMark mark = mark_in(theirs);
  const CallMark own = mark_in(own_record(call));
  if (mark == own) return true;
  if (!is_whole(call, mark, theirs)) return false;
  throw Mismatch(fmt::format(
      "ranks disagree about call {}: rank {} called {}, rank {} called {}{}: all ranks must call "
      "the same collectives in the same order with the same count, type, operation, root and "
      "settings",
      call, peers_.self().value(), to_string(own, details_of(peers_.own_control(), own)),
      peer.value(), to_string(mark, details_of(peers_.control(peer), mark)),
      first_difference(peer, own, mark)));
}

void CallLog::note(const Call& call, const CallMark& mark) {
  if (has_details(mark))
    peers_.notes().keep(peers_.own_control(), key_of(mark), name_in(call), call.shape.counts);
}

CallDetails CallLog::details_of(const Control& control, const CallMark& mark) const {
  if (!has_details(mark)) return {};
  return Notes::find(control, key_of(mark)).value_or(CallDetails{});
}

/// " (the count of rank 2 is 3 on rank 0 and 4 on rank 1)", where counts are what differs.
std::string CallLog::first_difference(Rank peer, const CallMark& own,
                                      const CallMark& theirs) const {
  const auto mine = details_of(peers_.own_control(), own).counts;
  const auto others = details_of(peers_.control(peer), theirs).counts;
  const auto [at, other] = std::ranges::mismatch(mine, others);
  if (at == mine.end() || other == others.end()) return "";
  return fmt::format(" (the count of rank {} is {} on rank {}, and {} on rank {})",
                     at - mine.begin(), *at, peers_.self().value(), *other, peer.value());
}

void CallLog::show_note(Rank peer, const CallRecord& of) {
  const CallMark mark = mark_in(of);
  if (has_details(mark)) peers_.notes().show(peers_, peer, key_of(mark));
}

void CallLog::compare(Rank peer, std::uint64_t call) {
  std::uint64_t& checked = checked_[peer];
  if (call <= checked || call > call_ || call + CallRecord::history_depth <= call_) return;
  const CallRecord& theirs = record(peer, call);
  if (theirs.call.load(std::memory_order_acquire) != call) return;
  if (theirs.history.load(std::memory_order_relaxed) !=
      own_record(call).history.load(std::memory_order_relaxed)) {
    if (!is_whole(call, mark_in(theirs), theirs)) return;
    find_difference(peer);
    throw Mismatch(fmt::format("ranks {} and {} have not made the same calls up to call {}",
                               peers_.self().value(), peer.value(), call));
  }
  checked = call;
}

/// Compares the calls one by one, from the first that has not been compared with the peer.
void CallLog::find_difference(Rank peer) {
  std::uint64_t& checked = checked_[peer];
  if (call_ > CallRecord::history_depth)
    checked = std::max(checked, call_ - CallRecord::history_depth);
  while (checked < call_ && compare_one(peer, checked + 1)) ++checked;
}

void CallLog::compare_all() {
  for (const Rank peer : peers_.posted())
    if (shown_all_[peer] != call_) {
      show_until_now(peer);
      peers_.wake(peer);
    }
  for (const Rank peer : peers_.others()) find_difference(peer);
}

/// Sends the records of all calls that the peer has not been sent, each with one push.
void CallLog::show_until_now(Rank peer) {
  static_assert(sizeof(CallRecord) <= Transport::snapshot.value());
  std::uint64_t& shown = shown_all_[peer];
  if (call_ - shown > CallRecord::history_depth) shown = call_ - CallRecord::history_depth;
  while (shown < call_) {
    const CallRecord& next = peers_.own_control().calls[++shown % CallRecord::history_depth];
    show_note(peer, next);
    peers_.show(peer, next);
  }
}

}  // namespace capstan
