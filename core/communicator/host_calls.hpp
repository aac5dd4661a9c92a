// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "capstan/communicator.hpp"
#include "capstan/message.hpp"
#include "capstan/request.hpp"
#include "capstan/work.hpp"
#include "core/communicator/staged_call.hpp"
#include "core/platform/device/device_memory.hpp"
#include "core/platform/device/device_probe.hpp"
#include "core/platform/device/stream_events.hpp"
#include "core/platform/memory/pinned_memory.hpp"

namespace capstan {

using StagedCount = std::shared_ptr<std::atomic<std::size_t>>;

/// A call in a stream that the host makes.
struct HostCall {
  std::variant<Request, std::vector<Message>> call;
  std::optional<DeviceBuffer> where{};

  StreamEvent begins{};        ///< the event before it; null: its data are ready
  StreamEvent passed{};        ///< the event behind the stream's wait
  std::uint32_t releases = 0;  ///< the number that lets its stream continue; 0: it waits for none
  std::unique_ptr<StagedCall> staged{};  ///< its stream copies by itself; null: the host copies
  std::optional<Work> under_way{};       ///< the last piece of it that was started
  std::chrono::steady_clock::time_point began{};  ///< when its stream had come to it
  /// Messages of it that the host copies from or to a device; null: nobody asks.
  StagedCount staged_messages{};

  /// Whether its stream waits for its end.
  bool holds_stream() const { return releases != 0 || staged; }
};

/// Calls in streams that go through pinned memory, made by a communicator on the host.
///
/// A call that nobody waits for is a StagedCall, if ranks have processes of their own and no
/// network card moves its messages. (In one process a rank that takes pinned memory would wait for
/// streams in which others wait for it.) Of others the host makes the copies, and handles tell when
/// results are on the device:
///
///   stream:  | ... | event |              wait for the number | ...
///   host:            await it, copy in, reduce, copy out, raise it
///
/// Threads that put calls use enter() and all_passed(), one at a time. One thread runs what they
/// have put, in that order: run(), then end(). It is no thread of Progress, as a driver may keep
/// whoever asks it waiting until other calls have ended.
class HostCalls {
 public:
  struct Hooks {
    /// Done again and again while a call waits for its stream. An exception ends the call.
    std::function<void()> meanwhile;
    /// Whether a network card may move a message itself: then no stream copies it.
    std::function<bool(const Message&)> may_stay_on_device;
    /// Starts messages. The count is HostCall::staged_messages.
    std::function<Work(const std::vector<Message>&, const StagedCount&)> start_exchange;
  };

  /// Collective. `most_pinned` limits the memory of calls that are StagedCalls.
  HostCalls(Communicator& group, Bytes most_pinned, Hooks hooks);
  HostCalls(const HostCalls&) = delete;
  /// All calls have ended. Memory that a stream may still use is never released.
  ~HostCalls();

  /// Puts a call on a device into its stream. `has_handle`: somebody waits for its end. Throws
  /// SystemError.
  void enter(HostCall& call, void* stream, bool has_handle);
  /// Whether streams have passed all calls that have ended.
  bool all_passed();

  /// Waits until the stream has come to the call, and makes it. Throws what calls of a
  /// communicator throw, and SystemError.
  void run(HostCall& call);
  /// For profilers, of a call that has run: which way its data went, and a collective's algorithm.
  /// "pinned staging: ring".
  std::string way_of(const HostCall& call) const;
  /// Lets the stream continue, whether run() threw or not. The group has failed by then if it did.
  void end(HostCall& call);

 private:
  /// A call that has ended, but that its stream may not have passed.
  struct Passing {
    StreamEvent event{};
    std::unique_ptr<StagedCall> staged{};
  };
  struct Ended {
    StreamEvent begins{};
    Passing passing{};
  };

  bool is_for_cards(const HostCall& call) const;
  bool stage(HostCall& call, void* stream);
  void enter_by_events(HostCall& call, void* stream);
  PinnedMemory& pinned(const DeviceBuffer& where);
  void make_number(const DeviceBuffer& where);
  std::uint32_t* number_word() const;

  StreamEvent event_at(const DeviceBuffer& where);
  void take_ended();
  void forget_passed(std::size_t looked_at);

  void await_stream(const HostCall& call, std::size_t piece);
  bool has_stream_come(const HostCall& call, std::size_t piece);
  Work start(const StagedCall::Call& piece, const HostCall& call);

  Communicator& group_;
  const Bytes most_pinned_;
  const Hooks hooks_;
  const bool streams_copy_;             ///< the same on all ranks
  std::optional<PinnedMemory> pinned_;  // made when first needed, as it initialises drivers
  std::optional<DeviceProbe> probe_;    // of the thread that runs, from the first StagedCall on
  PinnedMemory::Handle number_;         ///< of the last call whose stream may continue
  std::uint32_t put_ = 0;               ///< the number of the last call that a stream waits for
  StreamEvents events_;
  std::deque<Passing> passing_;

  std::mutex mutex_;  // for what follows
  std::deque<Ended> ended_;
};

}  // namespace capstan
