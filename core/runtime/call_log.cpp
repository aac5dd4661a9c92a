#include "core/runtime/call_log.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/ir/error.hpp"

namespace capstan {

namespace {

/// Linear, as it has nothing to tell apart but words of different calls.
std::uint64_t check_of(std::uint64_t call, const CallMark& mark, std::uint64_t history) {
  return call * 0x9e37'79b9'7f4a'7c15 + mark.signature * 0xbf58'476d'1ce4'e5b9 +
         mark.count * 0x94d0'49bb'1331'11eb + mark.root * 0xd6e8'feb8'6659'fd93 +
         mark.tensor * 0xa076'1d64'78bd'642f + history * 0xe703'7ed1'a0b4'28db;
}

CallMark mark_in(const CallRecord& record) {
  return {.signature = record.signature.load(std::memory_order_relaxed),
          .count = record.count.load(std::memory_order_relaxed),
          .root = record.root.load(std::memory_order_relaxed),
          .tensor = record.tensor.load(std::memory_order_relaxed)};
}

/// Not while the next call is being written over it, or has come only in part.
bool is_whole(std::uint64_t call, const CallMark& mark, const CallRecord& record) {
  const std::uint64_t history = record.history.load(std::memory_order_relaxed);
  return record.check.load(std::memory_order_relaxed) == check_of(call, mark, history);
}

}  // namespace

CallLog::CallLog(Peers& peers)
    : peers_(peers),
      marks_(CallRecord::kept),
      histories_(CallRecord::kept),
      checked_(static_cast<std::size_t>(peers.count())),
      shown_(static_cast<std::size_t>(peers.count())),
      shown_all_(static_cast<std::size_t>(peers.count())) {}

void CallLog::begin(const CallMark& mark, std::uint64_t digest, const AnnouncedBuffers& announced) {
  const std::uint64_t history = extend(histories_[call_ % CallRecord::kept], digest);
  ++call_;
  marks_[call_ % CallRecord::kept] = mark;
  histories_[call_ % CallRecord::kept] = history;
  CallRecord& own = own_record();
  own.signature.store(mark.signature, std::memory_order_relaxed);
  own.count.store(mark.count, std::memory_order_relaxed);
  own.root.store(mark.root, std::memory_order_relaxed);
  own.tensor.store(mark.tensor, std::memory_order_relaxed);
  own.history.store(history, std::memory_order_relaxed);
  own.check.store(check_of(call_, mark, history), std::memory_order_relaxed);
  CallBuffers& buffers = own_buffers();
  buffers.input.store(reinterpret_cast<std::uint64_t>(announced.input), std::memory_order_relaxed);
  buffers.output.store(reinterpret_cast<std::uint64_t>(announced.output),
                       std::memory_order_relaxed);
  buffers.allocations.store(
      announced.input_allocation | static_cast<std::uint64_t>(announced.output_allocation) << 32,
      std::memory_order_relaxed);
  own.call.store(call_, std::memory_order_release);
}

void CallLog::move_buffers(const void* input, void* output) {
  own_buffers().allocations.store(0, order);
  own_buffers().input.store(reinterpret_cast<std::uint64_t>(input), order);
  own_buffers().output.store(reinterpret_cast<std::uint64_t>(output), order);
}

/// False when the peer has not entered the call yet, as far as can be seen.
bool CallLog::compare_one(int peer, std::uint64_t call) const {
  const CallRecord& theirs = record(peer, call);
  const std::uint64_t recorded = theirs.call.load(std::memory_order_acquire);
  if (recorded != call) return recorded > call;
  const CallMark mark = mark_in(theirs);
  const CallMark& own = marks_[call % CallRecord::kept];
  if (mark == own) return true;
  if (!is_whole(call, mark, theirs)) return false;
  throw Mismatch(fmt::format(
      "ranks disagree about call {}: rank {} called {}, rank {} called {}: all ranks must call the "
      "same collectives in the same order with the same count, type, operation, root and settings",
      call, peers_.self(), to_string(own), peer, to_string(mark)));
}

void CallLog::compare(int peer, std::uint64_t call) {
  std::uint64_t& checked = checked_[static_cast<std::size_t>(peer)];
  if (call <= checked || call > call_ || call + CallRecord::kept <= call_) return;
  const CallRecord& theirs = record(peer, call);
  if (theirs.call.load(std::memory_order_acquire) != call) return;
  if (theirs.history.load(std::memory_order_relaxed) != histories_[call % CallRecord::kept]) {
    if (!is_whole(call, mark_in(theirs), theirs)) return;
    find_difference(peer);
    throw Mismatch(fmt::format("ranks {} and {} have not made the same calls up to call {}",
                               peers_.self(), peer, call));
  }
  checked = call;
}

/// Compares this call, and earlier ones in which nothing came from the peer.
void CallLog::find_difference(int peer) {
  std::uint64_t& checked = checked_[static_cast<std::size_t>(peer)];
  if (call_ > CallRecord::kept) checked = std::max(checked, call_ - CallRecord::kept);
  while (checked < call_ && compare_one(peer, checked + 1)) ++checked;
}

void CallLog::compare_all() {
  for (const int peer : peers_.posted())
    if (shown_all_[static_cast<std::size_t>(peer)] != call_) {
      show_until_now(peer);
      peers_.wake(peer);
    }
  for (int peer = 0; peer < peers_.count(); ++peer)
    if (peer != peers_.self()) find_difference(peer);
}

/// Each with one push, as it was.
void CallLog::show_until_now(int peer) {
  static_assert(sizeof(CallRecord) <= Transport::snapshot.value());
  std::uint64_t& shown = shown_all_[static_cast<std::size_t>(peer)];
  if (call_ - shown > CallRecord::kept) shown = call_ - CallRecord::kept;
  while (shown < call_) peers_.show(peer, peers_.own_control().calls[++shown % CallRecord::kept]);
}

}  // namespace capstan
