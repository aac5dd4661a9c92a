// SPDX-License-Identifier: Apache-2.0

// Streams and events.

#include <utility>

#include "bindings/nccl/cudart/runtime.hpp"

namespace capstan::cudart {
namespace {

struct Event {
  explicit Event(unsigned how) : flags(how) {}

  void set(std::shared_ptr<Moment> moment) {
    const std::scoped_lock lock{mutex};
    last = std::move(moment);
  }
  /// Nothing for an event that was never recorded.
  std::shared_ptr<Moment> get() {
    const std::scoped_lock lock{mutex};
    return last;
  }
  bool timed() const { return (flags & cudaEventDisableTiming) == 0; }

  const unsigned flags;
  std::mutex mutex;
  std::shared_ptr<Moment> last;
};

// Never destroyed, as programs free theirs in any order at their end.
Handles<cudaStream_t, Stream>& streams() {
  static auto* const all = new Handles<cudaStream_t, Stream>;
  return *all;
}

Handles<cudaEvent_t, Event>& events() {
  static auto* const all = new Handles<cudaEvent_t, Event>;
  return *all;
}

/// The stream of the thread on its current device; closed when the thread ends.
std::shared_ptr<Stream> stream_of_thread() {
  struct Own {
    std::unordered_map<int, std::shared_ptr<Stream>> by_device;
    ~Own() {
      for (const auto& [index, stream] : by_device) stream->close();
    }
  };
  thread_local Own own;
  auto& stream = own.by_device[current_device()];
  if (!stream) stream = device(current_device()).add(cudaStreamDefault);
  return stream;
}

bool is_default(cudaStream_t handle) {
  return handle == nullptr || handle == cudaStreamLegacy;
}

void create(cudaStream_t* handle, unsigned flags) {
  require(handle && flags <= cudaStreamNonBlocking);
  *handle = streams().add(device(current_device()).add(flags));
}

void create(cudaEvent_t* handle, unsigned flags) {
  require(handle);
  require((flags & cudaEventInterprocess) == 0, cudaErrorNotSupported);
  *handle = events().add(std::make_shared<Event>(flags));
}

cudaError_t query(cudaStream_t handle) {
  const auto stream = stream_of(handle);
  return device(stream->device()).idle(*stream) ? stream->take_failure() : cudaErrorNotReady;
}

void wait_for(cudaStream_t handle, cudaEvent_t event) {
  if (const auto moment = events().find(event)->get(); moment && !moment->passed())
    put(handle, [moment] { moment->wait(); });
}

void record(cudaEvent_t event, cudaStream_t handle) {
  const auto stream = stream_of(handle);
  events().find(event)->set(device(stream->device()).mark(*stream));
}

cudaError_t elapsed(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const auto first = events().find(start), last = events().find(end);
  require(milliseconds);
  const auto from = first->get(), to = last->get();
  require(first->timed() && last->timed() && from && to, cudaErrorInvalidResourceHandle);
  if (!from->passed() || !to->passed()) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(to->when() - from->when()).count();
  return cudaSuccess;
}

}  // namespace

std::shared_ptr<Stream> stream_of(cudaStream_t handle) {
  if (is_default(handle)) return device(current_device()).default_stream();
  return handle == cudaStreamPerThread ? stream_of_thread() : streams().find(handle);
}

void put(cudaStream_t handle, Stream::Work work) {
  const auto stream = stream_of(handle);
  device(stream->device()).put(*stream, std::move(work));
}

void require_that_it_may_wait() {
  require(!Stream::runs_this_thread(), cudaErrorNotPermitted);
}

cudaError_t synchronize(cudaStream_t handle) {
  require_that_it_may_wait();
  const auto stream = stream_of(handle);
  Device& of = device(stream->device());
  of.mark(*stream)->wait();
  return is_default(handle) ? of.take_failure() : stream->take_failure();
}

}  // namespace capstan::cudart

using namespace capstan::cudart;

CAPSTAN_CUDART_EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return guarded([&] { create(stream, cudaStreamDefault); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return guarded([&] { create(stream, flags); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                               int) {
  return guarded([&] { create(stream, flags); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return guarded([&] { streams().remove(stream)->close(); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return guarded([&] { return synchronize(stream); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return guarded([&] { return query(stream); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return guarded([&] {
    require(flags);
    *flags = stream_of(stream)->flags();
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return guarded([&] {
    require(priority && stream_of(stream));
    *priority = 0;
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
                                                      unsigned) {
  return guarded([&] { wait_for(stream, event); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream,
                                                        cudaStreamCallback_t callback, void* data,
                                                        unsigned) {
  return guarded([&] {
    require(callback);
    put(stream, [=] { callback(stream, cudaSuccess, data); });
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                                     void* data) {
  return guarded([&] {
    require(function);
    put(stream, [=] { function(data); });
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
                                                        cudaStreamCaptureStatus* status) {
  return guarded([&] {
    require(status && stream_of(stream));
    *status = cudaStreamCaptureStatusNone;
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) {
  return cudaSuccess;
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  return answer(cudaErrorStreamCaptureUnsupported);
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaCapstanStreamFail(cudaStream_t stream, cudaError_t error) {
  return guarded([&] { stream_of(stream)->fail(error); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return guarded([&] { create(event, cudaEventDefault); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return guarded([&] { create(event, flags); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return guarded([&] { events().remove(event); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return guarded([&] { record(event, stream); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                                           unsigned) {
  return guarded([&] { record(event, stream); });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  return guarded([&] {
    const auto moment = events().find(event)->get();
    return !moment || moment->passed() ? cudaSuccess : cudaErrorNotReady;
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return guarded([&] {
    require_that_it_may_wait();
    if (const auto moment = events().find(event)->get()) moment->wait();
  });
}

CAPSTAN_CUDART_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                                       cudaEvent_t end) {
  return guarded([&] { return elapsed(milliseconds, start, end); });
}
