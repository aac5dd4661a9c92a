// SPDX-License-Identifier: Apache-2.0

// Groups of calls: what a thread calls between ncclGroupStart and ncclGroupEnd happens together at
// the end.

#include "bindings/nccl/group.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/nccl/batch.hpp"
#include "bindings/nccl/result.hpp"
#include "bindings/nccl/side_by_side.hpp"

namespace capstan::nccl {
namespace {

struct Group {
  int depth = 0;
  std::vector<Call> calls;
  std::vector<std::function<void()>> creations;
};

Group& group() {
  thread_local Group one;
  return one;
}

/// The calls of the group that ends, whose communicators have been created. Nothing in a group
/// within another.
std::optional<std::vector<Call>> take_calls() {
  if (--group().depth > 0) return std::nullopt;
  const auto creations = std::exchange(group().creations, {});
  auto calls = std::exchange(group().calls, {});
  run_side_by_side(creations);
  return calls;
}

}  // namespace

ncclResult_t submit(std::shared_ptr<Comm> comm, cudaStream_t stream, const Request& request) {
  Call call{std::move(comm), stream, request};
  if (group().depth == 0) return run({call});
  group().calls.push_back(std::move(call));
  return ncclSuccess;
}

ncclResult_t submit(std::shared_ptr<Comm> comm, cudaStream_t stream, const Message& message) {
  if (group().depth == 0) return run({Call{std::move(comm), stream, std::nullopt, {message}}});
  auto& calls = group().calls;
  const auto exchange = std::ranges::find_if(calls, [&](const Call& call) {
    return !call.request && call.comm == comm && call.stream == stream;
  });
  if (exchange != calls.end())
    exchange->messages.push_back(message);
  else
    calls.push_back({std::move(comm), stream, std::nullopt, {message}});
  return ncclSuccess;
}

ncclResult_t create(std::function<ncclResult_t()> make, ncclResult_t otherwise) {
  if (group().depth == 0) return make();
  group().creations.push_back(std::move(make));
  return otherwise;
}

void open_group() {
  ++group().depth;
}

void drop_group() {
  group().calls.clear();
  group().creations.clear();
}

ncclResult_t close_group() {
  if (group().depth == 0) return refused("ncclGroupEnd without ncclGroupStart");
  auto calls = take_calls();
  return calls ? run(std::move(*calls)) : ncclSuccess;
}

ncclResult_t simulate_group(ncclSimInfo_t* info) {
  if (group().depth == 0) return refused("ncclGroupSimulateEnd without ncclGroupStart");
  const auto calls = take_calls();
  constexpr ncclSimInfo_t initial = NCCL_SIM_INFO_INITIALIZER;
  if (!info || info->magic != initial.magic || info->size < sizeof(*info))
    throw InvalidArgument(
        "ncclGroupSimulateEnd: begin with an ncclSimInfo_t from NCCL_SIM_INFO_INITIALIZER");
  if (calls)
    info->estimatedTime = std::chrono::duration<float, std::micro>{predicted_time(*calls)}.count();
  return ncclSuccess;
}

}  // namespace capstan::nccl

using namespace capstan::nccl;

extern "C" ncclResult_t pncclGroupStart() {
  open_group();
  return ncclSuccess;
}

extern "C" ncclResult_t pncclGroupEnd() {
  return guarded([] { return close_group(); });
}

extern "C" ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return guarded([&] { return simulate_group(info); });
}

CAPSTAN_NCCL_EXPORT(GroupStart);
CAPSTAN_NCCL_EXPORT(GroupEnd);
CAPSTAN_NCCL_EXPORT(GroupSimulateEnd);
