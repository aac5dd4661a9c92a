// SPDX-License-Identifier: Apache-2.0

// Calls on tensors and on many buffers, which are gathered into one buffer before the call and
// scattered again after it.

#include <fmt/format.h>

#include <functional>

#include "core/communicator/communicator_prepared.hpp"
#include "core/communicator/packing.hpp"
#include "core/communicator/tensor_call.hpp"

namespace capstan {
namespace {

Bytes bytes_of(const TensorView& tensor) {
  return capstan::bytes_of(tensor.count(), size_of(tensor.type));
}

void pack_input(Task& task, const Packing& packing, std::function<void()> pack) {
  task.keep.push_back(packing.memory());
  task.transfers.add(TransferStep::gather, std::move(pack));
  task.reads_input_at_once |= packing.on_device();
  task.owns_input = true;
}

void unpack_output(Task& task, const Packing& packing, std::function<void()> unpack) {
  task.keep.push_back(packing.memory());
  task.transfers.add(TransferStep::scatter, std::move(unpack));
  task.owns_output = true;
}

/// The type that all tensors have. Where there are none, the type does not matter.
DataType type_of_all(int rank, std::string_view call, const TensorRequest& request) {
  const auto& user = request.reducer.user();
  if (request.inputs.empty()) return user ? user->type : DataType::u8;
  const DataType type = request.inputs.front().type;
  for (const TensorView& tensor : request.inputs)
    if (tensor.type != type)
      throw InvalidArgument(fmt::format("rank {}: {}: the tensors {} and {} differ in type", rank,
                                        call, to_string(request.inputs.front()),
                                        to_string(tensor)));
  return type;
}

Bytes add_sizes(int rank, std::string_view call, Bytes total, Bytes more) {
  if (more > addressable - total)
    throw InvalidArgument(
        fmt::format("rank {}: {}: together they exceed the memory of any process", rank, call));
  return total + more;
}

}  // namespace

/// Several tensors of one type as one call in memory of its own.
Communicator::Prepared Communicator::prepare_fused(const TensorRequest& request) const {
  const std::string call = fmt::format("all_reduce of {} tensors", request.inputs.size());
  const DataType type = type_of_all(rank(), call, request);
  Bytes total{};
  const void* device = nullptr;  // a buffer on one
  for (const TensorView& tensor : request.inputs) {
    require_reachable(rank(), call, tensor);
    require_writable(rank(), call, tensor);
    total = add_sizes(rank(), call, total, bytes_of(tensor));
    if (!device && tensor.count() > Elements{0} && on_device(tensor.data)) device = tensor.data;
  }
  const Packing packed =
      device ? Packing{*Impl::of(*this).staging, total, call_of(rank(), call), device}
             : Packing{total};
  const Elements count{total.value() / size_of(type).value()};
  Prepared prepared = prepare(Request{.collective = Collective::all_reduce,
                                      .type = type,
                                      .foreign = request.foreign,
                                      .input = packed.data(),
                                      .input_count = count,
                                      .output = packed.data(),
                                      .output_count = count,
                                      .reducer = request.reducer});
  prepared.output.reset();  // the results are in many places
  const auto each_tensor = [packed, tensors = request.inputs](const auto& visit) {
    packed.copy([&](const CopyRun& copy_run) {
      std::byte* at = packed.data();
      for (const TensorView& tensor : tensors) {
        visit(copy_run, tensor, dense(tensor, at));
        at += bytes_of(tensor).value();
      }
    });
  };
  pack_input(prepared.main, packed, [each_tensor] {
    each_tensor([](const CopyRun& copy_run, const TensorView& tensor, const TensorView& place) {
      copy(place, tensor, copy_run);
    });
  });
  unpack_output(prepared.main, packed, [each_tensor] {
    each_tensor([](const CopyRun& copy_run, const TensorView& tensor, const TensorView& place) {
      copy(tensor, place, copy_run);
    });
  });
  return prepared;
}

Communicator::Prepared Communicator::prepare(const TensorRequest& request) const {
  const TensorCall call = check(request, rank(), size());
  if (request.inputs.size() != 1) return prepare_fused(request);
  const auto packing = [&](const std::optional<TensorSide>& side) {
    if (!side || side->travels_as_it_is()) return Packing{};
    return packing_for(*Impl::of(*this).staging, rank(), name_of(request.collective), side->tensor);
  };
  const Packing sent = packing(call.input);
  const Packing received = call.in_place ? sent : packing(call.output);
  Request plain = call.request;
  if (sent) plain.input = sent.data();
  if (received) plain.output = received.data();
  Prepared prepared = prepare(plain);
  if (!request.any_shape) prepared.main.call->tensor = call.shape;
  if (prepared.output) prepared.output->data = call.request.output;
  if (sent)
    pack_input(prepared.main, sent, [sent, side = *call.input] {
      sent.copy([&](const CopyRun& copy_run) { side.pack(sent.data(), copy_run); });
    });
  const bool stays = request.collective == Collective::exscan && rank() == 0;
  if (received && !stays)
    unpack_output(
        prepared.main, received, [received, side = call.in_place ? *call.input : *call.output] {
          received.copy([&](const CopyRun& copy_run) { side.unpack(received.data(), copy_run); });
        });
  return prepared;
}

void Communicator::run(const TensorRequest& request) {
  run_queued(prepare(request));
}
Work Communicator::start(const TensorRequest& request) {
  return start_queued(prepare(request));
}

}  // namespace capstan
