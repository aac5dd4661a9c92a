// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "errors.hpp"
#include "group.hpp"

namespace capstan::pytorch {

using c10d::OpType;

namespace {

Request moving(Collective collective, const at::Tensor& input, const at::Tensor& output,
               int root = 0) {
  Request request;
  request.collective = collective;
  request.root = root;
  const auto set = [&](const at::Tensor& tensor, auto& data, Elements& count) {
    if (!tensor.defined()) return;
    const Memory memory = memory_to_move(tensor);
    request.type = memory.type;
    request.foreign = memory.foreign;
    data = memory.data;
    count = memory.count;
  };
  set(input, request.input, request.input_count);
  set(output, request.output, request.output_count);
  return request;
}

Request reducing(Collective collective, const at::Tensor& input, const at::Tensor& output,
                 const c10d::ReduceOp& op, int root = 0) {
  memory_to_reduce(input);
  check_same_type(input, output, "input and output");
  Request request = moving(collective, input, output, root);
  request.reducer = reducer_of(op, input.scalar_type());
  return request;
}

/// The lengths of tensors in what Capstan counts.
std::vector<Elements> lengths(const TensorList& tensors) {
  std::vector<Elements> counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(memory_to_move(tensor).count);
  return counts;
}

bool are_equal(const std::vector<Elements>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>{}) == counts.end();
}

/// The blocks of a tensor that is split along its first dimension; without `splits` equal ones.
std::vector<Elements> blocks(const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                             int ranks, const char* side) {
  const std::int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const Elements all = memory_to_move(tensor).count;
  if (splits.empty()) {
    if (rows % ranks != 0)
      refuse(
          fmt::format("all_to_all_single: the first dimension of the {}, {}, is not divisible by "
                      "the {} ranks: pass split sizes",
                      side, rows, ranks));
    return {static_cast<std::size_t>(ranks), all / static_cast<std::uint64_t>(ranks)};
  }
  std::int64_t sum = 0;
  std::vector<Elements> counts;
  for (const std::int64_t split : splits) {
    if (split < 0) refuse("all_to_all_single: split sizes may not be negative");
    sum += split;
    counts.push_back(rows == 0 ? Elements{}
                               : Elements{all.value() / static_cast<std::uint64_t>(rows) *
                                          static_cast<std::uint64_t>(split)});
  }
  if (sum != rows || splits.size() != static_cast<std::size_t>(ranks))
    refuse(
        fmt::format("all_to_all_single: {} split sizes for the {} add up to {}; they must be {} "
                    "and add up to its first dimension, {}",
                    splits.size(), side, sum, ranks, rows));
  return counts;
}

void check_root_tensor(std::int64_t index) {
  if (index != 0) refuse("a rank has one tensor, so the index of the root's tensor must be 0");
}

}  // namespace

WorkPtr Group::broadcast(TensorList& tensors, const c10d::BroadcastOptions& options) {
  check_root_tensor(options.rootTensor);
  const HandlePtr work = handle(OpType::BROADCAST, "capstan:broadcast", options.timeout);
  const at::Tensor& tensor = only(tensors, "broadcast");
  const at::Tensor data =
      options.rootRank == rank_ ? work->tensors().input(tensor) : work->tensors().output(tensor);
  start(*work, moving(Collective::broadcast, data, data, static_cast<int>(options.rootRank)));
  work->give(tensors);
  return launched(work);
}

WorkPtr Group::allreduce(TensorList& tensors, const c10d::AllreduceOptions& options) {
#if TORCH_VERSION_MAJOR >= 2
  if (options.sparseIndices) refuse("all_reduce: sparse_indices are not supported");
#endif
  const HandlePtr work = handle(OpType::ALLREDUCE, "capstan:all_reduce", options.timeout);
  if (tensors.size() == 1 && tensors.front().layout() == at::kSparse) {
    start_sparse_all_reduce(*work, tensors.front(), options.reduceOp);
    work->give(tensors);
    return launched(work);
  }
  work->tensors().widen();
  const at::Tensor data = work->tensors().in_place(only(tensors, "all_reduce"));
  start(*work, reducing(Collective::all_reduce, data, data, options.reduceOp));
  work->give(tensors);
  return launched(work);
}

WorkPtr Group::allreduce_coalesced(TensorList& tensors,
                                   const c10d::AllreduceCoalescedOptions& options) {
  const HandlePtr work =
      handle(OpType::ALLREDUCE_COALESCED, "capstan:all_reduce_coalesced", options.timeout);
  work->tensors().widen();
  std::map<at::ScalarType, TensorList> by_type;
  for (const at::Tensor& tensor : tensors)
    by_type[tensor.scalar_type()].push_back(work->tensors().in_place(tensor));
  for (const auto& [type, list] : by_type) all_reduce_fused(*work, list, options.reduceOp);
  work->give(tensors);
  return launched(work);
}

void Group::all_reduce_fused(Handle& handle, const TensorList& tensors, const c10d::ReduceOp& op) {
  TensorRequest request;
  request.reducer = reducer_of(op, tensors.front().scalar_type());
  request.foreign = memory_to_reduce(tensors.front()).foreign;
  request.any_shape = true;
  for (const at::Tensor& tensor : tensors)
    request.inputs.emplace_back(tensor.data_ptr(), memory_to_reduce(tensor).type,
                                std::vector<std::int64_t>{tensor.numel()});
  translating([&] { handle.add(communicator()->start(request)); });
}

WorkPtr Group::reduce(TensorList& tensors, const c10d::ReduceOptions& options) {
  check_root_tensor(options.rootTensor);
  const HandlePtr work = handle(OpType::REDUCE, "capstan:reduce", options.timeout);
  work->tensors().widen();
  const at::Tensor& tensor = only(tensors, "reduce");
  const at::Tensor data =
      options.rootRank == rank_ ? work->tensors().in_place(tensor) : work->tensors().input(tensor);
  start(*work, reducing(Collective::reduce, data, data, options.reduceOp,
                        static_cast<int>(options.rootRank)));
  work->give(tensors);
  return launched(work);
}

void Group::start_all_gather(Handle& handle, const at::Tensor& output, const at::Tensor& input) {
  check_same_type(input, output, "all_gather");
  start(handle, moving(Collective::all_gather, handle.tensors().input(input),
                       handle.tensors().output(output)));
  handle.give({output});
}

WorkPtr Group::_allgather_base(at::Tensor& output, at::Tensor& input,
                               const c10d::AllgatherOptions& options) {
  const HandlePtr work =
      handle(OpType::_ALLGATHER_BASE, "capstan:all_gather_into_tensor", options.timeout);
  start_all_gather(*work, output, input);
  return launched(work);
}

WorkPtr Group::allgather(std::vector<TensorList>& outputs, TensorList& inputs,
                         const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only(inputs, "all_gather");
  if (outputs.size() != 1) refuse("all_gather takes one list of outputs");
  check_size(outputs.front().size(), "all_gather");
  check_same_type(input, outputs.front().front(), "all_gather");
  const HandlePtr work = handle(OpType::ALLGATHER, "capstan:all_gather", options.timeout);
  const at::Tensor flat = work->tensors().outputs(outputs.front());
  auto counts = lengths(outputs.front());
  const bool equal = are_equal(counts);
  Request request = moving(equal ? Collective::all_gather : Collective::all_gather_v,
                           work->tensors().input(input), flat);
  if (!equal) request.counts = std::move(counts);
  start(*work, request);
  work->give(outputs.front());
  return launched(work);
}

WorkPtr Group::allgather_coalesced(std::vector<TensorList>& outputs, TensorList& inputs,
                                   const c10d::AllgatherOptions& options) {
  check_size(outputs.size(), "all_gather_coalesced");
  const HandlePtr work =
      handle(OpType::ALLGATHER_COALESCED, "capstan:all_gather_coalesced", options.timeout);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TensorList parts;
    for (const TensorList& of_rank : outputs) parts.push_back(of_rank.at(i));
    check_same_type(inputs[i], parts.front(), "all_gather_coalesced");
    start(*work, moving(Collective::all_gather, work->tensors().input(inputs[i]),
                        work->tensors().outputs(parts)));
  }
  for (const TensorList& of_rank : outputs) work->give(of_rank);
  return launched(work);
}

WorkPtr Group::gather(std::vector<TensorList>& outputs, TensorList& inputs,
                      const c10d::GatherOptions& options) {
  const at::Tensor& input = only(inputs, "gather");
  const bool is_root = options.rootRank == rank_;
  if (outputs.size() != (is_root ? 1 : 0))
    refuse("gather takes one list of outputs at the root and none elsewhere");
  const HandlePtr work = handle(OpType::GATHER, "capstan:gather", options.timeout);
  at::Tensor flat;
  if (is_root) {
    check_size(outputs.front().size(), "gather");
    if (!are_equal(lengths(outputs.front()))) refuse("gather takes outputs of one size");
    check_same_type(input, outputs.front().front(), "gather");
    flat = work->tensors().outputs(outputs.front());
    work->give(outputs.front());
  }
  start(*work, moving(Collective::gather, work->tensors().input(input), flat,
                      static_cast<int>(options.rootRank)));
  return launched(work);
}

WorkPtr Group::scatter(TensorList& outputs, std::vector<TensorList>& inputs,
                       const c10d::ScatterOptions& options) {
  const at::Tensor& output = only(outputs, "scatter");
  const bool is_root = options.rootRank == rank_;
  if (inputs.size() != (is_root ? 1 : 0))
    refuse("scatter takes one list of inputs at the root and none elsewhere");
  const HandlePtr work = handle(OpType::SCATTER, "capstan:scatter", options.timeout);
  at::Tensor flat;
  if (is_root) {
    check_size(inputs.front().size(), "scatter");
    if (!are_equal(lengths(inputs.front()))) refuse("scatter takes inputs of one size");
    check_same_type(inputs.front().front(), output, "scatter");
    flat = work->tensors().inputs(inputs.front());
  }
  start(*work, moving(Collective::scatter, flat, work->tensors().output(output),
                      static_cast<int>(options.rootRank)));
  work->give(outputs);
  return launched(work);
}

void Group::start_reduce_scatter(Handle& handle, const at::Tensor& output, const at::Tensor& input,
                                 const c10d::ReduceOp& op) {
  handle.tensors().widen();
  start(handle, reducing(Collective::reduce_scatter, handle.tensors().input(input),
                         handle.tensors().output(output), op));
  handle.give({output});
}

WorkPtr Group::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                    const c10d::ReduceScatterOptions& options) {
  const HandlePtr work =
      handle(OpType::_REDUCE_SCATTER_BASE, "capstan:reduce_scatter_tensor", options.timeout);
  start_reduce_scatter(*work, output, input, options.reduceOp);
  return launched(work);
}

WorkPtr Group::reduce_scatter(TensorList& outputs, std::vector<TensorList>& inputs,
                              const c10d::ReduceScatterOptions& options) {
  const at::Tensor& output = only(outputs, "reduce_scatter");
  if (inputs.size() != 1) refuse("reduce_scatter takes one list of inputs");
  check_size(inputs.front().size(), "reduce_scatter");
  const HandlePtr work = handle(OpType::REDUCE_SCATTER, "capstan:reduce_scatter", options.timeout);
  work->tensors().widen();
  const at::Tensor flat = work->tensors().inputs(inputs.front());
  std::vector<Elements> counts;
  for (const at::Tensor& block : inputs.front())
    counts.emplace_back(static_cast<std::uint64_t>(block.numel()));
  const bool equal = are_equal(counts);
  Request request = reducing(equal ? Collective::reduce_scatter : Collective::reduce_scatter_v,
                             flat, work->tensors().output(output), options.reduceOp);
  if (!equal) request.counts = std::move(counts);
  start(*work, request);
  work->give(outputs);
  return launched(work);
}

void Group::start_all_to_all(Handle& handle, const at::Tensor& output, const at::Tensor& input,
                             std::vector<Elements> sent, std::vector<Elements> received) {
  Request request = moving(Collective::all_to_all_v, input, output);
  request.counts = std::move(sent);
  request.receive_counts = std::move(received);
  start(handle, request);
}

WorkPtr Group::alltoall_base(at::Tensor& output, at::Tensor& input,
                             std::vector<std::int64_t>& output_splits,
                             std::vector<std::int64_t>& input_splits,
                             const c10d::AllToAllOptions& options) {
  check_same_type(input, output, "all_to_all_single");
  auto sent = blocks(input, input_splits, size_, "input");
  auto received = blocks(output, output_splits, size_, "output");
  const HandlePtr work =
      handle(OpType::ALLTOALL_BASE, "capstan:all_to_all_single", options.timeout);
  const at::Tensor from = work->tensors().input(input), to = work->tensors().output(output);
  if (input_splits.empty() && output_splits.empty())
    start(*work, moving(Collective::all_to_all, from, to));
  else
    start_all_to_all(*work, to, from, std::move(sent), std::move(received));
  work->give({output});
  return launched(work);
}

WorkPtr Group::alltoall(TensorList& outputs, TensorList& inputs,
                        const c10d::AllToAllOptions& options) {
  check_size(inputs.size(), "all_to_all");
  check_size(outputs.size(), "all_to_all");
  check_same_type(inputs.front(), outputs.front(), "all_to_all");
  const HandlePtr work = handle(OpType::ALLTOALL, "capstan:all_to_all", options.timeout);
  const at::Tensor from = work->tensors().inputs(inputs), to = work->tensors().outputs(outputs);
  start_all_to_all(*work, to, from, lengths(inputs), lengths(outputs));
  work->give(outputs);
  return launched(work);
}

#if TORCH_VERSION_MAJOR >= 2
WorkPtr Group::allgather_into_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                               const c10d::AllgatherOptions& options) {
  if (outputs.size() != inputs.size()) refuse("as many outputs as inputs are needed");
  const HandlePtr work =
      handle(OpType::COALESCED, "capstan:all_gather_into_tensor_coalesced", options.timeout);
  for (std::size_t i = 0; i < inputs.size(); ++i) start_all_gather(*work, outputs[i], inputs[i]);
  return launched(work);
}

WorkPtr Group::reduce_scatter_tensor_coalesced(TensorList& outputs, TensorList& inputs,
                                               const c10d::ReduceScatterOptions& options) {
  if (outputs.size() != inputs.size()) refuse("as many outputs as inputs are needed");
  const HandlePtr work =
      handle(OpType::COALESCED, "capstan:reduce_scatter_tensor_coalesced", options.timeout);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    start_reduce_scatter(*work, outputs[i], inputs[i], options.reduceOp);
  return launched(work);
}
#endif

}  // namespace capstan::pytorch
