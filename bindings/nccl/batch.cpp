// SPDX-License-Identifier: Apache-2.0

// How calls of the program run: at once, or in streams of the stand-in for CUDA. Those of NVIDIA's
// are in stream_calls.cpp.

#include "bindings/nccl/batch.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <map>
#include <mutex>

#include "bindings/nccl/cuda.hpp"
#include "bindings/nccl/result.hpp"
#include "bindings/nccl/stream_calls.hpp"

namespace capstan::nccl {
namespace {

constexpr unsigned without_timing = 2;  // cudaEventDisableTiming
constexpr int launch_failure = 719;     // cudaErrorLaunchFailure

/// Held while turns are taken and calls put into streams, so that both are in the same order and
/// two threads cannot wait for each other.
std::mutex& order() {
  static std::mutex one;
  return one;
}

/// The turns of all communicators that calls have, from the moment at which they are taken, under
/// order(), until they have run.
class TurnsOf {
 public:
  explicit TurnsOf(const std::vector<Call>& calls) {
    for (const Call& call : calls)
      if (std::ranges::find(turns_, call.comm, &Turn::comm) == turns_.end())
        turns_.push_back({call.comm, call.comm->turns().take()});
  }
  TurnsOf(const TurnsOf&) = delete;
  ~TurnsOf() {
    await();
    for (const Turn& turn : turns_) turn.comm->turns().end();
  }

  void await() const {
    for (const Turn& turn : turns_) turn.comm->turns().await(turn.number);
  }

 private:
  struct Turn {
    std::shared_ptr<Comm> comm;
    Turns::Number number;
  };
  std::vector<Turn> turns_;
};

Work start(const Call& call) {
  Communicator& world = call.comm->world();
  return call.request ? world.start(*call.request) : world.start_exchange(call.messages);
}

/// Starts all calls, of several communicators in turn, before it waits for any. Gives the error of
/// each call. A call that `leave` chooses is left to its communicator once it is started.
template <class Leave>
std::vector<std::exception_ptr> together(const std::vector<Call>& calls, Leave leave) {
  std::vector<std::exception_ptr> errors(calls.size());
  std::vector<std::size_t> waited_for;
  std::vector<Work> works;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    try {
      Work work = start(calls[i]);
      if (leave(calls[i]))
        calls[i].comm->add({std::move(work)});
      else
        waited_for.push_back(i), works.push_back(std::move(work));
    } catch (...) {
      errors[i] = std::current_exception();
    }
  }
  Work::wait_all(works);
  for (std::size_t i = 0; i < works.size(); ++i) {
    try {
      works[i].wait();
    } catch (...) {
      errors[waited_for[i]] = std::current_exception();
    }
  }
  return errors;
}

ncclResult_t run_now(const std::vector<Call>& calls) {
  for (const Call& call : calls) drain(call.stream);
  std::unique_lock ordered{order()};
  const TurnsOf turns{calls};
  ordered.unlock();
  turns.await();
  bool in_flight = false;
  const auto errors = together(calls, [&](const Call& call) {
    const bool leaves = !call.comm->options().blocking;
    in_flight |= leaves;
    return leaves;
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return in_flight ? ncclInProgress : ncclSuccess;
}

/// Tells the program of a call in a stream that failed. Who has aborted a communicator knows.
void tell(const Call& call, const std::exception_ptr& error) {
  call.comm->fail(error);
  if (call.comm->aborted()) return;
  result_of(error);  // ncclGetLastError has the text
  cuda().stream_fail(call.stream, launch_failure);
}

/// Calls that wait in a stream.
struct Queued {
  explicit Queued(std::vector<Call> which) : calls(std::move(which)), turns(calls) {}
  const std::vector<Call> calls;
  const TurnsOf turns;
};

void run_queued(void* data) {
  const std::unique_ptr<Queued> queued{static_cast<Queued*>(data)};
  queued->turns.await();
  const auto errors = together(queued->calls, [](const Call&) { return false; });
  for (std::size_t i = 0; i < errors.size(); ++i)
    if (errors[i]) tell(queued->calls[i], errors[i]);
}

/// `last` waits for all that `first` has now.
void join(cudaStream_t first, cudaStream_t last) {
  Cuda::Event event{};
  require_cuda(cuda().event_create(&event, without_timing), "cudaEventCreateWithFlags");
  const int recorded = cuda().event_record(event, first);
  const int waits = cuda().stream_wait_event(last, event, 0);
  cuda().event_destroy(event);
  require_cuda(recorded, "cudaEventRecord");
  require_cuda(waits, "cudaStreamWaitEvent");
}

/// The first stream runs the calls; the others wait for it before and after, as in NCCL.
void enqueue(std::vector<Call> calls, const std::vector<cudaStream_t>& streams) {
  for (const Call& call : calls) call.comm->world();  // throws what keeps it from being used
  for (std::size_t i = 1; i < streams.size(); ++i) join(streams[i], streams[0]);
  {
    const std::scoped_lock ordered{order()};
    auto queued = std::make_unique<Queued>(std::move(calls));
    require_cuda(cuda().launch_host_function(streams[0], run_queued, queued.get()),
                 "cudaLaunchHostFunc");
    static_cast<void>(queued.release());  // run_queued frees it
  }
  for (std::size_t i = 1; i < streams.size(); ++i) join(streams[0], streams[i]);
}

std::vector<cudaStream_t> streams_of(const std::vector<Call>& calls) {
  std::vector<cudaStream_t> streams;
  for (const Call& call : calls)
    if (call.stream && std::ranges::find(streams, call.stream) == streams.end())
      streams.push_back(call.stream);
  return streams;
}

/// Whether no rank of a collective moves anything: counts of NCCL's calls are equal on all ranks.
bool is_empty(const Call& call) {
  return call.comm->has_streams() && call.request->input_count == Elements{0} &&
         call.request->output_count == Elements{0};
}

/// Where some calls may travel by streams, one of no bytes has no buffer that tells its way: no
/// rank makes it, and no stream waits for it.
void drop_empty_calls(std::vector<Call>& calls) {
  for (Call& call : calls) {
    call.comm->world();  // throws what keeps it from being used
    if (call.comm->has_streams())
      std::erase_if(call.messages, [](const Message& each) { return each.count == Elements{0}; });
  }
  std::erase_if(calls, [](const Call& call) {
    return call.request ? is_empty(call) : call.messages.empty();
  });
}

/// Calls on device memory are put into their streams first. A call on host memory blocks until its
/// stream is empty, and would hold them up.
ncclResult_t run_beside_cuda(std::vector<Call> calls) {
  drop_empty_calls(calls);
  const auto rest = std::ranges::stable_partition(calls, is_on_devices);
  std::vector<Call> on_host(rest.begin(), rest.end());
  calls.erase(rest.begin(), rest.end());
  const ncclResult_t put = calls.empty() ? ncclSuccess : put_into_streams(std::move(calls));
  const ncclResult_t ran = on_host.empty() ? ncclSuccess : run_now(on_host);
  return put == ncclInProgress ? put : ran;
}

/// Messages of an exchange travel in both directions at once.
std::chrono::nanoseconds predicted_time(const Call& call) {
  const Communicator& world = call.comm->world();
  if (call.request) return world.predicted_time(*call.request);
  std::chrono::nanoseconds sent{}, received{};
  for (const Message& message : call.messages)
    (message.sends ? sent : received) +=
        world.predicted_time(message.peer, bytes_of(message.count, size_of(message.type)));
  return std::max(sent, received);
}

}  // namespace

std::chrono::nanoseconds predicted_time(const std::vector<Call>& calls) {
  std::map<const Comm*, std::chrono::nanoseconds> times;
  for (const Call& call : calls) times[call.comm.get()] += predicted_time(call);
  std::chrono::nanoseconds longest{};
  for (const auto& [comm, time] : times) longest = std::max(longest, time);
  return longest;
}

ncclResult_t run(std::vector<Call> calls) {
  if (calls.empty()) return ncclSuccess;
  if (!cuda().is_stand_in()) return run_beside_cuda(std::move(calls));
  for (Call& call : calls)
    if (call.stream == legacy_stream) call.stream = nullptr;
  const auto streams = streams_of(calls);
  if (streams.empty()) return run_now(calls);
  for (const Call& call : calls)
    if (!call.stream) drain(nullptr);
  enqueue(std::move(calls), streams);
  return ncclSuccess;
}

}  // namespace capstan::nccl
