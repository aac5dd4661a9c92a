// SPDX-License-Identifier: Apache-2.0

// Calls on memory of devices, with NVIDIA's CUDA: StreamCollectives puts them into streams.

#include "bindings/nccl/stream_calls.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "bindings/nccl/cuda.hpp"
#include "bindings/nccl/side_by_side.hpp"
#include "capstan/async/devices.hpp"
#include "capstan/async/foreign.hpp"

namespace capstan::nccl {
namespace {

std::vector<const void*> buffers_of(const Call& call) {
  std::vector<const void*> buffers;
  const auto add = [&](const void* data, Elements count) {
    if (data && count > Elements{0}) buffers.push_back(data);
  };
  if (call.request) {
    const Request& request = *call.request;
    // Buffers that a rank does not use are ignored.
    using enum Collective;
    const Collective collective = request.collective;
    const bool is_root = request.root == call.comm->rank();
    if (is_root || (collective != broadcast && collective != scatter))
      add(request.input, request.input_count);
    if (is_root || (collective != reduce && collective != gather))
      add(request.output, request.output_count);
  }
  for (const Message& message : call.messages) add(message.data, message.count);
  return buffers;
}

/// The calls of one communicator, all in the first of the streams.
struct Batch {
  explicit Batch(std::shared_ptr<Comm> of) : comm(std::move(of)), turn(comm->turns().take()) {}
  Batch(const Batch&) = delete;
  ~Batch() {
    comm->turns().await(turn);
    comm->turns().end();
  }

  cudaStream_t stream() const { return streams.empty() ? nullptr : streams.front(); }

  const std::shared_ptr<Comm> comm;
  const Turns::Number turn;
  std::vector<Call> calls{};
  std::vector<cudaStream_t> streams{};  ///< none: the buffers are ready, and the call blocks
  const void* memory = nullptr;
};
using Batches = std::vector<std::unique_ptr<Batch>>;

/// In the order of their first calls.
Batches by_communicator(std::vector<Call> calls) {
  Batches batches;
  for (Call& call : calls) {
    auto found = std::ranges::find(batches, call.comm, [](const auto& each) { return each->comm; });
    if (found == batches.end())
      found = batches.insert(batches.end(), std::make_unique<Batch>(call.comm));
    (*found)->calls.push_back(std::move(call));
  }
  return batches;
}

/// All messages are one exchange, behind the collectives: ranks may call them in any order.
void merge_messages(std::vector<Call>& calls) {
  const auto messages = std::ranges::stable_partition(
      calls, [](const Call& call) { return call.request.has_value(); });
  if (messages.size() < 2) return;
  Call& all = messages.front();
  for (auto other = messages.begin() + 1; other != messages.end(); ++other)
    all.messages.insert(all.messages.end(), other->messages.begin(), other->messages.end());
  calls.erase(messages.begin() + 1, messages.end());
}

/// Whether calls are put into this stream like into any other. A default stream belongs to the
/// device that is current, which has to be that of the buffers, and cudaStreamPerThread to the
/// thread. Older versions of HIP have no handle of the legacy stream but null.
bool takes_calls(const Batch& batch, cudaStream_t stream, bool on_this_thread) {
  if (!is_default_stream(stream)) return true;
  if (cuda().is_amd || batch.comm->devices().is_shared) return false;
  const int device = batch.comm->options().device;
  return current_device() == device && device_with(batch.memory) == device &&
         (stream != thread_stream || on_this_thread);
}

/// Collects the streams of a batch. If one takes no calls, this waits until all are empty, and the
/// batch has none. The wait has to be on the caller's thread, as cudaStreamPerThread is that
/// thread's own.
void collect_streams(Batch& batch, bool on_this_thread) {
  for (const Call& call : batch.calls)
    if (std::ranges::find(batch.streams, call.stream) == batch.streams.end())
      batch.streams.push_back(call.stream);
  batch.memory = buffers_of(batch.calls.front()).front();
  const auto takes = [&](cudaStream_t stream) {
    return takes_calls(batch, stream, on_this_thread);
  };
  if (std::ranges::all_of(batch.streams, takes)) {
    std::ranges::replace(batch.streams, cudaStream_t{}, legacy_stream);
    return;
  }
  for (cudaStream_t stream : batch.streams) wait_for_stream(stream, batch.memory);
  batch.streams.clear();
}

/// Blocks until peers have come at the first call, and at the first of each kind.
void put(std::unique_ptr<Batch> batch) {
  batch->comm->turns().await(batch->turn);
  StreamCollectives& streams = batch->comm->streams();
  cudaStream_t const stream = batch->stream();
  for (cudaStream_t other : batch->streams)
    if (other != stream) order_streams(other, stream, batch->memory);
  auto ordered = streams.on(stream);
  for (const Call& call : batch->calls)
    call.request ? ordered.run(*call.request) : ordered.exchange(call.messages);
  for (cudaStream_t other : batch->streams)
    if (other != stream) order_streams(stream, other, batch->memory);
}

/// The handle does not keep the communicator, which keeps the handle.
void put_in_background(std::unique_ptr<Batch> batch) {
  const auto comm = batch->comm;
  comm->add({work_from([batch = std::move(batch)]() mutable { put(std::move(batch)); },
                       "a call that is put into its stream")});
}

}  // namespace

bool is_on_devices(const Call& call) {
  if (!call.comm->has_streams()) return false;
  const auto buffers = buffers_of(call);
  return !buffers.empty() && std::ranges::all_of(buffers, is_device_memory);
}

ncclResult_t put_into_streams(std::vector<Call> calls) {
  for (const Call& call : calls) call.comm->world();  // throws what keeps it from being used
  Batches batches = by_communicator(std::move(calls));
  for (const auto& batch : batches) {
    merge_messages(batch->calls);
    collect_streams(*batch, batches.size() == 1 && batch->comm->options().blocking);
  }
  const auto blocking = std::ranges::stable_partition(
      batches, [](const auto& batch) { return !batch->comm->options().blocking; });
  std::vector<std::function<void()>> puts;
  for (auto& batch : blocking) puts.emplace_back([&batch] { put(std::move(batch)); });
  bool in_background = false;
  for (auto batch = batches.begin(); batch != blocking.begin(); ++batch, in_background = true)
    put_in_background(std::move(*batch));
  run_side_by_side(puts);
  return in_background ? ncclInProgress : ncclSuccess;
}

}  // namespace capstan::nccl
