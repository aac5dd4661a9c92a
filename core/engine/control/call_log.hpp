// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "capstan/by_rank.hpp"
#include "core/engine/control/peers.hpp"
#include "core/engine/control/shared_memory.hpp"
#include "core/schedule/lowering/call.hpp"

namespace capstan {

/// The buffers of a call, and the allocations of this rank that contain them.
struct AnnouncedBuffers {
  const void* input = nullptr;
  void* output = nullptr;
  shared::AllocationId input_allocation = 0, output_allocation = 0;
};

/// A buffer of a peer, by its address in the peer's memory.
struct PeerBuffer {
  std::uint64_t address = 0;
  shared::AllocationId allocation = 0;

  /// The owner is about to move the buffer, which will have an address again.
  bool moves() const { return address == 0; }
};

/// The call in a record; empty where there is none, or while it is being written.
std::optional<CallMark> read(const CallRecord& record);

/// Publishes the calls of this rank, and compares them with the calls of its peers: ranks that make
/// different calls get an error instead of a wrong result or a hang.
///
/// Used by one thread at a time.
class CallLog {
 public:
  explicit CallLog(Peers& peers);

  /// Number of the current call, or between calls of the last one; from 1.
  std::uint64_t call() const { return call_; }
  /// Digest of this call and all before it.
  std::uint64_t history() const { return history_; }
  /// Begins a call. `digest` is that of its mark. `buffers` is null unless peers access them.
  void begin(const CallMark& mark, std::uint64_t digest, const AnnouncedBuffers* buffers);
  /// Publishes the end of the call, with the next store to Finished::blocks.
  void end(Finished& finished) const {
    finished.calls.store(call_, std::memory_order_relaxed);
    finished.history.store(history_, std::memory_order_relaxed);
  }
  /// Publishes new addresses of the call's buffers, which are in no allocation. Null: the buffers
  /// have no address for now.
  void move_buffers(const void* input, void* output);
  /// The buffers of a peer that has entered the current call. If the peer moves them meanwhile, the
  /// address may be the new one while the allocation is the former, which does not contain it.
  PeerBuffer input_of(Rank peer) const {
    const CallBuffers& theirs = buffers(peer);
    const std::uint64_t address = theirs.input.load(order);
    return {address, static_cast<shared::AllocationId>(theirs.allocations.load(order))};
  }
  PeerBuffer output_of(Rank peer) const {
    const CallBuffers& theirs = buffers(peer);
    const std::uint64_t address = theirs.output.load(order);
    return {address, static_cast<shared::AllocationId>(theirs.allocations.load(order) >> 32)};
  }

  /// Compares all calls up to `call` by their histories, if the peer has entered `call`. Throws
  /// Mismatch, which names the first difference.
  void compare(Rank peer, std::uint64_t call);
  /// Compares the calls up to the current one.
  void compare(Rank peer) {
    if (checked_[peer] != call_) compare(peer, call_);
  }
  /// The same, for a peer whose histories came with a signal (see Flag). The peer's record is read
  /// only if they do not contain this rank's history.
  void compare(Rank peer, const std::uint64_t (&histories)[Flag::history_depth]) {
    if (histories[call_ % Flag::history_depth] == history())
      checked_[peer] = call_;
    else
      compare(peer);
  }
  /// Compares the calls up to the last one that the peer has finished.
  void compare(Rank peer, const Finished& theirs) {
    const std::uint64_t call = std::min(theirs.calls.load(std::memory_order_relaxed), call_);
    std::uint64_t& checked = checked_[peer];
    if (theirs.history.load(std::memory_order_relaxed) !=
        own_record(call).history.load(std::memory_order_relaxed))
      compare(peer, call);
    else if (call > checked)
      checked = call;
  }
  /// Whether the peer has entered the current call as well. Throws Mismatch.
  bool agrees(Rank peer) {
    compare(peer);
    return checked_[peer] == call_;
  }
  /// The same as far as it has been seen, without comparing.
  bool has_entered(Rank peer) const {
    return record(peer, call_).call.load(std::memory_order_acquire) >= call_;
  }
  /// Compares every call so far with every peer: for waits that last.
  void compare_all();
  /// Sends the record of the current call to a peer on another host, with the next wake.
  void show(Rank peer) {
    if (std::exchange(shown_[peer], call_) == call_ || peers_.mapped(peer)) return;
    show_note(peer, own_record());
    peers_.show(peer, own_record());
  }
  /// Notes what the marks of such calls have a digest of only, for errors of this rank and its
  /// peers.
  void note(const Call& call, const CallMark& mark);

 private:
  static constexpr auto order = std::memory_order_seq_cst;

  const CallRecord& record(Rank peer, std::uint64_t call) const {
    return peers_.control(peer).calls[call % CallRecord::history_depth];
  }
  const CallRecord& own_record(std::uint64_t call) const {
    return control_of(segment_).calls[call % CallRecord::history_depth];
  }
  const CallBuffers& buffers(Rank peer) const {
    return peers_.control(peer).buffers[call_ % CallRecord::history_depth];
  }
  CallRecord& own_record() { return control_of(segment_).calls[call_ % CallRecord::history_depth]; }
  CallBuffers& own_buffers() {
    return control_of(segment_).buffers[call_ % CallRecord::history_depth];
  }
  void announce(const AnnouncedBuffers& buffers);
  bool compare_one(Rank peer, std::uint64_t call) const;
  void find_difference(Rank peer);
  CallDetails details_of(const Control& control, const CallMark& mark) const;
  std::string first_difference(Rank peer, const CallMark& own, const CallMark& theirs) const;
  void show_note(Rank peer, const CallRecord& of);
  void show_until_now(Rank peer);

  Peers& peers_;
  std::byte* const segment_;
  std::uint64_t call_ = 0, history_ = 0;
  ByRank<std::uint64_t> checked_;    // the last call up to which a peer has been compared
  ByRank<std::uint64_t> shown_;      // the last call whose record a peer has been sent
  ByRank<std::uint64_t> shown_all_;  // the last call up to which a peer has been sent all records
};

/// The checksum of a record whose mark has this digest. A linear one suffices to tell calls apart.
// measured: docs/lab-notebook.md#record-check
constexpr std::uint64_t record_check(std::uint64_t call, std::uint64_t digest,
                                     std::uint64_t history) {
  return call * 0x9e37'79b9'7f4a'7c15 + digest * 0xbf58'476d'1ce4'e5b9 +
         history * 0xe703'7ed1'a0b4'28db;
}

inline void CallLog::begin(const CallMark& mark, std::uint64_t digest,
                           const AnnouncedBuffers* buffers) {
  history_ = extend(history_, digest);
  ++call_;
  if (buffers) announce(*buffers);
  CallRecord& own = own_record();
  own.signature.store(mark.signature, std::memory_order_relaxed);
  own.count.store(mark.count, std::memory_order_relaxed);
  own.root.store(mark.root, std::memory_order_relaxed);
  own.tensor.store(mark.tensor, std::memory_order_relaxed);
  own.history.store(history_, std::memory_order_relaxed);
  own.check.store(record_check(call_, digest, history_), std::memory_order_relaxed);
  own.call.store(call_, std::memory_order_release);
}

}  // namespace capstan
