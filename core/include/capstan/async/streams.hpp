// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "capstan/collectives.hpp"
#include "capstan/communicator.hpp"
#include "capstan/export.hpp"
#include "capstan/message.hpp"
#include "capstan/work.hpp"

namespace CAPSTAN_EXPORT capstan {

class Profiler;
class [[gnu::visibility("hidden")]] StreamTuning;

/// Collectives and messages on memory of devices, in the order of streams (cudaStream_t, CUstream,
/// hipStream_t):
///
///   capstan::StreamCollectives streams{world};
///   kernel<<<..., stream>>>(gradient);
///   streams.on(stream).all_reduce(gradient, sum);   // returns at once
///   other<<<..., stream>>>(sum);                    // finds the result
///
/// A call begins when what is in its stream by then is done, and the stream continues when the call
/// has ended. The thread that calls waits for neither.
///
/// A call goes one of two ways, the same on all ranks; explain() tells which. As a kernel in the
/// stream: collectives with equal counts and built-in operations, where ranks have agreed that they
/// can. They are on one host, at most 64, and their devices reach each other's memory; no rank has
/// Settings::device_executor off; and all kernels that wait for each other run side by side. (Of
/// ranks that share a device, those of several processes do so under CUDA's MPS alone, and those of
/// one process with two hardware queues each: CUDA_DEVICE_MAX_CONNECTIONS=32. Such ranks must not
/// free memory of the device while calls wait: that waits for all kernels of the device.) Ranks
/// agree at the first call on a device, and at the first one of each type and operation, which
/// therefore waits for the others to make it; calls of new sizes wait for nobody. Data never leave
/// the devices. All calls of a rank are on the device
/// of its first one, else they throw InvalidArgument.
///
/// Otherwise data go through pinned host memory and the executor on the host, over any transport; a
/// long all_reduce, reduce, broadcast or scan goes in pieces, so that copies of one piece overlap
/// the work on another. A thread of the object sees to that. The progress thread of the rank sees
/// to the end of kernels, by polling memory: the first call that runs by one starts it.
///
/// All ranks make the calls of one object in the same order, whatever their streams. Those that run
/// by kernels follow one another in this order, and so do those through pinned memory; only streams
/// order the former and the latter. They use groups of their own, so that they and calls of the
/// communicator do not wait for each other. Thread-safe, but for the order.
///
/// With a null stream the buffers are taken to be ready, and a call returns when it has ended. So
/// it does where there is no buffer to tell the device by, and where the driver has no stream that
/// waits for memory (HIP before 5) for calls through pinned memory.
///
/// While a stream is captured into a graph, calls that run by kernels become part of it; make a
/// call of each type and operation before. A graph may be replayed as long as this object lives.
/// The program sees to it that replays and other calls of the object do not overlap on any device,
/// and come in the same order on all ranks. A captured call has no handle.
///
/// Throws at once: InvalidArgument for host memory, for host and device memory in one call, for a
/// stream of another device than the buffers', and for a call through pinned memory while the
/// stream is captured into a graph, as the host would not take part in its replays; SystemError
/// when the driver fails. What fails later ends the group on all ranks: the stream continues with
/// undefined results, the Work has the error, and later calls throw it. A kernel that waits for a
/// peer for longer than Settings::timeout is such a failure, with the ranks that keep it waiting as
/// culprits; so are a peer that dies or leaves, and ranks that make different calls.
class StreamCollectives {
 public:
  /// Collective: every rank makes one. It keeps no reference to `world`.
  explicit StreamCollectives(Communicator& world);
  StreamCollectives(StreamCollectives&&) noexcept;
  StreamCollectives& operator=(StreamCollectives&&) noexcept;
  /// Waits for all calls, and so for what is in their streams before them; if they run by kernels,
  /// for five seconds, and as long again for the other ranks to end theirs. Memory of the device
  /// that kernels may use even then is never released.
  ~StreamCollectives();

  class OnStream;
  /// The collectives (capstan/collectives.hpp) in this stream's order.
  OnStream on(void* stream);

  int rank() const;
  int size() const;

  /// By which way such a call goes, and why: "device executor, 8 lanes: ring staged",
  /// "device executor, 8 lanes over NVLink or xGMI: ring staged", "pinned staging: ranks are on
  /// several hosts". Before the first call on a device ranks are "undecided".
  /// Takes no part in an agreement, and touches no buffers. Throws InvalidArgument for a request
  /// that is none. Waits for a call that another thread is making.
  std::string explain(const Request& request) const;
  /// Ends the group on all ranks, as Communicator::abort() does: kernels that wait for each other
  /// end within a tenth of a second or so, with undefined results, and all later calls throw
  /// Aborted with the reason. May be called from any thread.
  void abort(const std::string& reason);
  /// The error that has ended the group; null while the group works. May be called from any thread.
  std::exception_ptr async_error() const;
  /// From now on `profiler` records the calls of this rank, with the way that their data went in
  /// the place of the algorithm: "device executor: ring flags", "pinned staging: ring", and for
  /// messages, which are recorded as "exchange", "network cards" or "pinned staging". A call by a
  /// kernel begins when its stream comes to it; how long it takes is told by the device's clock,
  /// and when, to about a millisecond. Any other call begins when the host sees that its data are
  /// ready, and ends when the host is done with it. Captured calls are not recorded. Replaces an
  /// earlier profiler. May be called from any thread.
  void attach(const Profiler& profiler, const std::string& tag = {});
  void detach_profiler();
  /// Whether all calls so far have ended, but for replays of graphs. May be called from any thread.
  bool is_idle() const;

 private:
  friend class StreamTuning;
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Valid as long as the StreamCollectives that it was made from.
class StreamCollectives::OnStream : public Collectives<OnStream> {
 public:
  /// Returns at once, or with a null stream when the call has ended.
  void run(const Request& request);
  /// The same, with a handle: to wait, to co_await, for callbacks. A null stream is fine here, too.
  [[nodiscard]] Work start(const Request& request);

  /// Messages of the ranks, by ranks of the world, all under way at once. One is a call like any
  /// other: later calls of this object wait for it, so ranks that each send first and receive then
  /// make one exchange of both, as with NCCL's groups.
  void exchange(const std::vector<Message>& messages);
  [[nodiscard]] Work start_exchange(const std::vector<Message>& messages);
  template <LastingRange Data>
  void send(Data&& data, int destination, int tag = 0) {
    exchange({Message::to(destination, data, tag)});
  }
  template <LastingMutableRange Data>
  void receive(Data&& buffer, int source, int tag = any_tag) {
    exchange({Message::from(source, buffer, tag)});
  }

 private:
  friend StreamCollectives;
  OnStream(Impl& impl, void* stream) : impl_(&impl), stream_(stream) {}

  Impl* impl_;
  void* stream_;
};

inline StreamCollectives::OnStream StreamCollectives::on(void* stream) {
  return {*impl_, stream};
}

}  // namespace CAPSTAN_EXPORT capstan
