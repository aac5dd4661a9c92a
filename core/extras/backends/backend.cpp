// SPDX-License-Identifier: Apache-2.0
#include "capstan/backends/backend.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/extras/backends/backend_call.hpp"

namespace capstan {
namespace {

using enum Collective;

Tensor like(const Tensor& tensor) {
  return {tensor.type(), tensor.shape()};
}

std::size_t checked_dimension(const Backend& backend, Collective collective, const Tensor& input,
                              int dimension) {
  if (dimension < 0 || static_cast<std::size_t>(dimension) >= input.shape().size())
    refuse_argument(caller_of(backend), name_of(collective),
                    fmt::format("there is no dimension {} of {}", dimension, to_string(input)));
  return static_cast<std::size_t>(dimension);
}

}  // namespace

Caller caller_of(const Backend& backend) {
  return {backend.name(), backend.rank(), backend.world_size()};
}

void Backend::refuse(const std::string& what, const std::string& remedy) const {
  throw NotSupported(
      name(), fmt::format("rank {}: {}: {} is not supported: {}", rank(), name(), what, remedy));
}

void Backend::require_open(std::string_view call) const {
  if (!is_initialized())
    refuse_argument(caller_of(*this), call, "the backend has been closed: make another one");
}

void Backend::require_possible(std::string_view call, const TensorView& tensor) const {
  const Capabilities can = capabilities();
  if (is_on_device(tensor) ? can.device_memory : can.host_memory) return;
  refuse(fmt::format("{} of {} on {}", call, to_string(tensor), to_string(tensor.device)),
         is_on_device(tensor) ? "copy it to the host, or choose another backend"
                              : "copy it to the device, or choose another backend");
}

AsynchronousPart& Backend::require_asynchronous(std::string_view call) {
  require_open(call);
  AsynchronousPart* part = asynchronous();
  if (!part) refuse(fmt::format("start_{}", call), fmt::format("call {}, which waits", call));
  return *part;
}

PointToPointPart& Backend::require_point_to_point(std::string_view call) {
  require_open(call);
  PointToPointPart* part = point_to_point();
  if (!part) refuse(std::string{call}, "this backend has collectives only");
  return *part;
}

std::shared_ptr<DeviceRuntime> Backend::staging_for(const Device& /*device*/) const {
  return nullptr;
}

void Backend::run_checked(const Request& request) {
  asynchronous()->start(request, {}).wait();
}

void Backend::run(const Request& request) {
  require_open(name_of(request.collective));
  check(request, caller_of(*this));
  run_checked(request);
}

Work Backend::start(const Request& request) {
  AsynchronousPart& part = require_asynchronous(name_of(request.collective));
  check(request, caller_of(*this));
  return part.start(request, {});
}

void Backend::run_call(const BackendCall& call) {
  run(call.request());
  if (call.finish()) call.finish()();
}

Work Backend::start_call(const BackendCall& call) {
  AsynchronousPart& part = require_asynchronous(name_of(call.request().collective));
  check(call.request(), caller_of(*this));
  return part.start(call.request(), call.finish());
}

BackendCall Backend::prepare(Collective collective, const TensorView& input,
                             const TensorView& output, const Reducer& reducer, int root,
                             int dimension) const {
  require_open(name_of(collective));
  require_possible(name_of(collective), input);
  require_possible(name_of(collective), output);
  Caller caller = caller_of(*this);
  caller.staging = staging_for(is_on_device(input) ? input.device : output.device);
  return {caller, collective, input, output, reducer, root, dimension};
}

void Backend::all_reduce(const TensorView& data, const Reducer& reducer) {
  all_reduce(data, data, reducer);
}
void Backend::all_reduce(const TensorView& input, const TensorView& output,
                         const Reducer& reducer) {
  run_call(prepare(Collective::all_reduce, input, output, reducer));
}
Tensor Backend::all_reduce(const Tensor& input, const Reducer& reducer) {
  Tensor output = like(input);
  all_reduce(input.view(), output.view(), reducer);
  return output;
}
Work Backend::start_all_reduce(const TensorView& data, const Reducer& reducer) {
  return start_all_reduce(data, data, reducer);
}
Work Backend::start_all_reduce(const TensorView& input, const TensorView& output,
                               const Reducer& reducer) {
  return start_call(prepare(Collective::all_reduce, input, output, reducer));
}

void Backend::all_gather(const TensorView& input, const TensorView& output, int dimension) {
  run_call(prepare(Collective::all_gather, input, output, {}, 0, dimension));
}
Tensor Backend::all_gather(const Tensor& input, int dimension) {
  const std::size_t d = checked_dimension(*this, Collective::all_gather, input, dimension);
  std::vector<std::int64_t> shape = input.shape();
  shape[d] *= world_size();
  Tensor output{input.type(), std::move(shape)};
  all_gather(input.view(), output.view(), dimension);
  return output;
}
Work Backend::start_all_gather(const TensorView& input, const TensorView& output, int dimension) {
  return start_call(prepare(Collective::all_gather, input, output, {}, 0, dimension));
}

void Backend::reduce_scatter(const TensorView& input, const TensorView& output,
                             const Reducer& reducer, int dimension) {
  run_call(prepare(Collective::reduce_scatter, input, output, reducer, 0, dimension));
}
Tensor Backend::reduce_scatter(const Tensor& input, const Reducer& reducer, int dimension) {
  const std::size_t d = checked_dimension(*this, Collective::reduce_scatter, input, dimension);
  std::vector<std::int64_t> shape = input.shape();
  if (shape[d] % world_size() != 0)
    refuse_argument(caller_of(*this), "reduce_scatter",
                    fmt::format("dimension {} of {} cannot be cut into {} equal slices", dimension,
                                to_string(input), world_size()));
  shape[d] /= world_size();
  Tensor output{input.type(), std::move(shape)};
  reduce_scatter(input.view(), output.view(), reducer, dimension);
  return output;
}
Work Backend::start_reduce_scatter(const TensorView& input, const TensorView& output,
                                   const Reducer& reducer, int dimension) {
  return start_call(prepare(Collective::reduce_scatter, input, output, reducer, 0, dimension));
}

void Backend::broadcast(const TensorView& data, int root) {
  run_call(prepare(Collective::broadcast, data, data, {}, root));
}
Work Backend::start_broadcast(const TensorView& data, int root) {
  return start_call(prepare(Collective::broadcast, data, data, {}, root));
}

void Backend::reduce(const TensorView& input, const TensorView& output, int root,
                     const Reducer& reducer) {
  run_call(prepare(Collective::reduce, input, output, reducer, root));
}
Tensor Backend::reduce(const Tensor& input, int root, const Reducer& reducer) {
  Tensor output = input;
  reduce(input.view(), output.view(), root, reducer);
  return output;
}
Work Backend::start_reduce(const TensorView& input, const TensorView& output, int root,
                           const Reducer& reducer) {
  return start_call(prepare(Collective::reduce, input, output, reducer, root));
}

void Backend::barrier() {
  run(Request{});
}
Work Backend::start_barrier() {
  return start(Request{});
}

void Backend::abort(const std::string& /*reason*/) {
  refuse("abort", "end the processes of the job");
}

std::unique_ptr<Backend> Backend::make_subgroup(std::span<const int> /*ranks*/) {
  refuse("subgroup", "make a backend of these ranks alone");
}

std::unique_ptr<Backend> Backend::subgroup(std::span<const int> ranks) {
  require_open("subgroup");
  for (const int rank : ranks)
    if (rank < 0 || rank >= world_size())
      refuse_argument(
          caller_of(*this), "subgroup",
          fmt::format("rank {} does not exist: ranks are 0 to {}", rank, world_size() - 1));
  if (std::set<int>(ranks.begin(), ranks.end()).size() != ranks.size() || ranks.empty())
    refuse_argument(caller_of(*this), "subgroup", "pass each of its ranks once");
  return make_subgroup(ranks);
}

}  // namespace capstan
