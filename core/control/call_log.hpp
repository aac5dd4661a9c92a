#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/control/peers.hpp"
#include "core/control/shared_memory.hpp"
#include "core/lowering/call.hpp"

namespace capstan {

/// The buffers of a call, and the allocations of this rank that they are in.
struct AnnouncedBuffers {
  const void* input = nullptr;
  void* output = nullptr;
  shared::AllocationId input_allocation = 0, output_allocation = 0;
};

/// A buffer of a peer: where it lies in the peer's memory.
struct PeerBuffer {
  std::uint64_t address = 0;
  shared::AllocationId allocation = 0;

  /// Its owner is about to move it: it will have an address again.
  bool moves() const { return address == 0; }
};

/// What this rank has called, published for its peers to compare, and the comparison: ranks that do
/// not call the same are told so instead of getting wrong results or none.
class CallLog {
 public:
  explicit CallLog(Peers& peers);

  /// Number of the current (or last) call, from 1.
  std::uint64_t call() const { return call_; }
  /// Digest of this call and all before it.
  std::uint64_t history() const { return history_; }
  /// A call begins; `digest`: that of its mark; `buffers`: if peers are going to reach them.
  void begin(const CallMark& mark, std::uint64_t digest, const AnnouncedBuffers* buffers);
  /// It ends.
  void end(Finished& finished) const {
    finished.calls.store(call_, std::memory_order_relaxed);
    finished.history.store(history_, std::memory_order_relaxed);
  }
  /// Its buffers are elsewhere from now on, and in no allocation.
  void move_buffers(const void* input, void* output);
  /// The buffers of a peer, which has entered the current call. Of buffers that move meanwhile the
  /// address may be the new one and the allocation the former: it is not in that.
  PeerBuffer input_of(int peer) const {
    const CallBuffers& theirs = buffers(peer);
    const std::uint64_t address = theirs.input.load(order);
    return {address, static_cast<shared::AllocationId>(theirs.allocations.load(order))};
  }
  PeerBuffer output_of(int peer) const {
    const CallBuffers& theirs = buffers(peer);
    const std::uint64_t address = theirs.output.load(order);
    return {address, static_cast<shared::AllocationId>(theirs.allocations.load(order) >> 32)};
  }

  /// Compares all calls up to `call`, if the peer has entered that, at one glance. Throws Mismatch
  /// that names the first difference.
  void compare(int peer, std::uint64_t call);
  /// The same for the current call, for a peer that something has come from.
  void compare(int peer) {
    if (checked_[static_cast<std::size_t>(peer)] != call_) compare(peer, call_);
  }
  /// The same, where what it has called came with that (see Flag): normally nothing else has to be
  /// looked at.
  void compare(int peer, const std::uint64_t (&histories)[Flag::history_depth]) {
    if (histories[call_ % Flag::history_depth] == history())
      checked_[static_cast<std::size_t>(peer)] = call_;
    else
      compare(peer);
  }
  /// The same for the last call that it has finished.
  void compare(int peer, const Finished& theirs) {
    const std::uint64_t call = std::min(theirs.calls.load(std::memory_order_relaxed), call_);
    std::uint64_t& checked = checked_[static_cast<std::size_t>(peer)];
    if (theirs.history.load(std::memory_order_relaxed) !=
        own_record(call).history.load(std::memory_order_relaxed))
      compare(peer, call);
    else if (call > checked)
      checked = call;
  }
  /// Whether the peer has entered the current call, too. Throws Mismatch.
  bool agrees(int peer) {
    compare(peer);
    return checked_[static_cast<std::size_t>(peer)] == call_;
  }
  /// Compares every call with every peer, for waits that last.
  void compare_all();
  /// Shows the current call to a peer on another host, with the next wake.
  void show(int peer) {
    if (std::exchange(shown_[static_cast<std::size_t>(peer)], call_) != call_)
      peers_.show(peer, own_record());
  }

 private:
  static constexpr auto order = std::memory_order_seq_cst;

  const CallRecord& record(int peer, std::uint64_t call) const {
    return peers_.control(peer).calls[call % CallRecord::history_depth];
  }
  const CallRecord& own_record(std::uint64_t call) const {
    return control_of(segment_).calls[call % CallRecord::history_depth];
  }
  const CallBuffers& buffers(int peer) const {
    return peers_.control(peer).buffers[call_ % CallRecord::history_depth];
  }
  CallRecord& own_record() { return control_of(segment_).calls[call_ % CallRecord::history_depth]; }
  CallBuffers& own_buffers() {
    return control_of(segment_).buffers[call_ % CallRecord::history_depth];
  }
  void announce(const AnnouncedBuffers& buffers);
  bool compare_one(int peer, std::uint64_t call) const;
  void find_difference(int peer);
  void show_until_now(int peer);

  Peers& peers_;
  std::byte* const segment_;
  std::uint64_t call_ = 0, history_ = 0;
  std::vector<std::uint64_t> checked_;    // the last call in which a peer was compared
  std::vector<std::uint64_t> shown_;      // the last call that a peer has been shown
  std::vector<std::uint64_t> shown_all_;  // the last one up to which it has been shown all
};

/// Of a record, whose mark has this digest. Linear, as it has nothing to tell apart but words of
/// different calls.
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
