// Calls on tensors and on many buffers, which are gathered into one buffer before the call and
// scattered again after it.

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "core/api/communicator_prepared.hpp"

namespace capstan {
namespace {

Bytes bytes_of(const TensorView& tensor) {
  return capstan::bytes_of(tensor.count(), size_of(tensor.type));
}

/// Memory of a call into which tensors or buffers are packed: pinned if devices copy to or from it.
class Packing {
 public:
  /// No memory: the tensor travels as it is.
  Packing() = default;
  explicit Packing(Bytes size) {
    const auto memory = std::make_shared<std::vector<std::byte>>(size.value());
    memory_ = {memory, memory->data()};
  }
  Packing(DeviceStaging& staging, Bytes size, const std::string& call)
      : memory_(staging.pinned(size, call)),
        transfer_(staging.transfer(call, memory_)),
        on_device_(true) {}

  explicit operator bool() const { return memory_ != nullptr; }
  const std::shared_ptr<std::byte>& memory() const { return memory_; }
  std::byte* data() const { return memory_.get(); }
  bool on_device() const { return on_device_; }

  /// Calls `body` with a function that copies between this memory and packed buffers.
  template <class Body>
  void copy(const Body& body) const {
    DeviceCopies copies{transfer_};
    body([&](void* to, const void* from, std::size_t size) { copies.copy(to, from, size); });
    copies.finish();
  }
  void copy(const TensorView& to, const TensorView& from) const {
    copy([&](const CopyRun& copy_run) { capstan::copy(to, from, copy_run); });
  }

 private:
  std::shared_ptr<std::byte> memory_{};
  Transfer transfer_{};
  bool on_device_ = false;
};

/// The same shape in dense memory.
TensorView dense(const TensorView& like, void* data) {
  return {data, like.type, like.shape};
}

Request request_of(Collective collective, const TensorView& input, const TensorView& output,
                   const Reducer& reducer = {}, int root = 0) {
  return {.collective = collective,
          .type = output.type,
          .input = input.data,
          .input_count = input.count(),
          .output = output.data,
          .output_count = output.count(),
          .reducer = reducer,
          .root = root};
}

/// Whether a tensor lies within memory that a process can address.
bool is_addressable(const TensorView& tensor) {
  const auto most = static_cast<std::int64_t>(addressable.value() / size_of(tensor.type).value());
  const auto fits = [&](std::int64_t length) { return length <= most; };
  if (!std::ranges::all_of(tensor.shape, fits) ||
      tensor.count().value() > static_cast<std::uint64_t>(most))
    return false;
  for (std::size_t i = 0; i < tensor.strides.size(); ++i) {
    const std::int64_t farthest = most / std::max<std::int64_t>(tensor.shape[i] - 1, 1);
    if (tensor.strides[i] > farthest || tensor.strides[i] < -farthest) return false;
  }
  return true;
}

/// Refuses what is no tensor: the members of a view can be set to anything.
void require_valid(int rank, std::string_view call, const TensorView& tensor) {
  const auto refuse = [&](const std::string& text) {
    throw InvalidArgument(fmt::format("rank {}: {}: {}", rank, call, text));
  };
  if (static_cast<std::size_t>(tensor.type) >= all_data_types().size())
    refuse(fmt::format("the tensor's type {} does not exist: pass a DataType",
                       static_cast<int>(tensor.type)));
  const bool has_strides = !tensor.strides.empty();
  if ((has_strides && tensor.strides.size() != tensor.shape.size()) ||
      std::ranges::any_of(tensor.shape, [](std::int64_t length) { return length < 0; }))
    refuse(
        fmt::format("the tensor {} has {} strides: lengths are not negative, and each has a "
                    "stride, or none has",
                    to_string(tensor), tensor.strides.size()));
  if (!is_addressable(tensor))
    refuse(fmt::format("the tensor {} exceeds the memory of any process", to_string(tensor)));
  if (!tensor.data && tensor.count() > Elements{0})
    refuse(fmt::format("the tensor {} is null: pass its memory", to_string(tensor)));
}

/// Refuses a tensor that this process cannot copy from and to.
void require_reachable(int rank, std::string_view call, const TensorView& tensor) {
  require_valid(rank, call, tensor);
  using enum DeviceType;
  const DeviceType type = tensor.device.type;
  if (type == cpu || type == cuda_host || type == rocm_host || type == cuda_managed) return;
  if ((type == cuda || type == rocm) && devices_possible.load(std::memory_order_relaxed)) return;
  throw InvalidArgument(fmt::format(
      "rank {}: {}: the tensor {} is on device {}:{}, which this process has no driver for: load "
      "CUDA or HIP before the communicator is made, or pass a tensor in host memory",
      rank, call, to_string(tensor), static_cast<int>(type), tensor.device.index));
}

/// `large` is `small` with the length of one dimension times the number of ranks.
void require_slices(const char* call, int rank, int ranks, const TensorView& small,
                    const TensorView& large, int dimension) {
  require_reachable(rank, call, small);
  require_reachable(rank, call, large);
  const auto d = static_cast<std::size_t>(dimension);
  const bool exists = dimension >= 0 && d < small.shape.size();
  auto expected = small.shape;
  if (exists) expected[d] *= ranks;
  if (!exists || small.type != large.type || expected != large.shape)
    throw InvalidArgument(fmt::format(
        "rank {}: {} along dimension {} of {} and {}: the two must agree but for that dimension, "
        "which is {} times as long in the one",
        rank, call, dimension, to_string(small), to_string(large), ranks));
}

/// The part of `tensor` that belongs to a rank.
TensorView slice_of(const TensorView& tensor, int dimension, int rank, int ranks) {
  const std::int64_t length = tensor.shape[static_cast<std::size_t>(dimension)] / ranks;
  return tensor.slice(dimension, rank * length, length);
}

/// Slices lie one after the other, so that they can travel as they are.
bool slices_are_blocks(const TensorView& tensor, int dimension) {
  const auto outer = std::span{tensor.shape}.first(static_cast<std::size_t>(dimension));
  return tensor.is_dense() && std::ranges::all_of(outer, [](auto length) { return length == 1; });
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

Packing packing_for(DeviceStaging& staging, int rank, std::string_view call,
                    const TensorView& tensor) {
  if (tensor.count() == Elements{0} || !on_device(tensor.data)) return Packing{bytes_of(tensor)};
  return {staging, bytes_of(tensor),
          call_of(rank, fmt::format("{} of {}", call, to_string(tensor)))};
}

TensorRequest in_place(Collective collective, const TensorView& data, const Reducer& reducer,
                       int root = 0) {
  return {.collective = collective, .inputs = {data}, .reducer = reducer, .root = root};
}
TensorRequest along(Collective collective, const TensorView& input, const TensorView& output,
                    int dimension, const Reducer& reducer = {}) {
  return {.collective = collective,
          .inputs = {input},
          .outputs = {output},
          .reducer = reducer,
          .dimension = dimension};
}

/// Refuses collectives that tensors do not have, and numbers of tensors that they do not take.
void require_numbers(int rank, const TensorRequest& request) {
  using enum Collective;
  const bool in_place = request.collective == all_reduce || request.collective == broadcast;
  if (!in_place && request.collective != all_gather && request.collective != reduce_scatter)
    throw InvalidArgument(
        fmt::format("rank {}: a call on tensors is an all_reduce, broadcast, all_gather or "
                    "reduce_scatter: use a Request for other collectives",
                    rank),
        ErrorCode::not_supported);
  const std::size_t inputs = request.inputs.size(), outputs = request.outputs.size();
  if (outputs != (in_place ? 0 : 1) || (request.collective != all_reduce && inputs != 1))
    throw InvalidArgument(
        fmt::format("rank {}: {} of {} input and {} output tensors: TensorRequest says how many",
                    rank, name_of(request.collective), inputs, outputs));
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

Communicator::Prepared Communicator::prepare_in_place(Collective collective, const TensorView& data,
                                                      int root, const Reducer& reducer) const {
  require_reachable(rank(), name_of(collective), data);
  const Packing packed =
      data.is_dense() ? Packing{}
                      : packing_for(*Impl::of(*this).staging, rank(), name_of(collective), data);
  const TensorView sent = packed ? dense(data, packed.data()) : data;
  Prepared prepared = prepare(request_of(collective, sent, sent, reducer, root));
  Task& task = prepared.main;
  if (data.shape.size() > 1) task.call.tensor = data.shape;  // else the count says as much
  prepared.output->data = data.data;
  if (!packed) return prepared;
  pack_input(task, packed, [=] { packed.copy(sent, data); });
  unpack_output(task, packed, [=] { packed.copy(data, sent); });
  return prepared;
}

Communicator::Prepared Communicator::prepare_gather(const TensorView& input,
                                                    const TensorView& output, int dimension) const {
  require_slices("all_gather", rank(), size(), input, output, dimension);
  const auto packing = [&](bool as_it_is, const TensorView& tensor) {
    return as_it_is ? Packing{}
                    : packing_for(*Impl::of(*this).staging, rank(), "all_gather", tensor);
  };
  const Packing block = packing(input.is_dense(), input);
  const Packing blocks = packing(slices_are_blocks(output, dimension), output);
  const TensorView sent = block ? dense(input, block.data()) : input;
  const TensorView received = blocks ? dense(output, blocks.data()) : output;
  Prepared prepared = prepare(request_of(Collective::all_gather, sent, received));
  Task& task = prepared.main;
  task.call.tensor = input.shape;
  prepared.output->data = output.data;
  if (block) pack_input(task, block, [=] { block.copy(sent, input); });
  if (blocks)
    unpack_output(task, blocks, [=, ranks = size(), length = bytes_of(input).value()] {
      blocks.copy([&](const CopyRun& copy_run) {
        for (int peer = 0; peer < ranks; ++peer)
          copy(slice_of(output, dimension, peer, ranks),
               dense(input, blocks.data() + static_cast<std::size_t>(peer) * length), copy_run);
      });
    });
  return prepared;
}

Communicator::Prepared Communicator::prepare_scatter(const TensorView& input,
                                                     const TensorView& output, int dimension,
                                                     const Reducer& reducer) const {
  require_slices("reduce_scatter", rank(), size(), output, input, dimension);
  const auto packing = [&](bool as_it_is, const TensorView& tensor) {
    return as_it_is ? Packing{}
                    : packing_for(*Impl::of(*this).staging, rank(), "reduce_scatter", tensor);
  };
  const Packing blocks = packing(slices_are_blocks(input, dimension), input);
  const Packing block = packing(output.is_dense(), output);
  const TensorView sent = blocks ? dense(input, blocks.data()) : input;
  const TensorView received = block ? dense(output, block.data()) : output;
  Prepared prepared = prepare(request_of(Collective::reduce_scatter, sent, received, reducer));
  Task& task = prepared.main;
  task.call.tensor = output.shape;
  prepared.output->data = output.data;
  if (block) unpack_output(task, block, [=] { block.copy(output, received); });
  if (blocks)
    pack_input(task, blocks, [=, ranks = size(), length = bytes_of(output).value()] {
      blocks.copy([&](const CopyRun& copy_run) {
        for (int peer = 0; peer < ranks; ++peer)
          copy(dense(output, blocks.data() + static_cast<std::size_t>(peer) * length),
               slice_of(input, dimension, peer, ranks), copy_run);
      });
    });
  return prepared;
}

/// Several tensors of one type as one call in memory of its own.
Communicator::Prepared Communicator::prepare_fused(const TensorRequest& request) const {
  const std::string call = fmt::format("all_reduce of {} tensors", request.inputs.size());
  const DataType type = type_of_all(rank(), call, request);
  Bytes total{};
  bool device = false;
  for (const TensorView& tensor : request.inputs) {
    require_reachable(rank(), call, tensor);
    total = add_sizes(rank(), call, total, bytes_of(tensor));
    device = device || (tensor.count() > Elements{0} && on_device(tensor.data));
  }
  const Packing packed =
      device ? Packing{*Impl::of(*this).staging, total, call_of(rank(), call)} : Packing{total};
  const Elements count{total.value() / size_of(type).value()};
  Prepared prepared = prepare(Request{.collective = Collective::all_reduce,
                                      .type = type,
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
  const auto& [collective, inputs, outputs, reducer, root, dimension] = request;
  require_numbers(rank(), request);
  switch (collective) {
    case Collective::all_gather:
      return prepare_gather(inputs.front(), outputs.front(), dimension);
    case Collective::reduce_scatter:
      return prepare_scatter(inputs.front(), outputs.front(), dimension, reducer);
    default:
      return inputs.size() == 1 ? prepare_in_place(collective, inputs.front(), root, reducer)
                                : prepare_fused(request);
  }
}

void Communicator::run(const TensorRequest& request) {
  run_queued(prepare(request));
}
Work Communicator::start(const TensorRequest& request) {
  return start_queued(prepare(request));
}

void Communicator::all_reduce(const TensorView& data, const Reducer& reducer) {
  run(in_place(Collective::all_reduce, data, reducer));
}
Work Communicator::start_all_reduce(const TensorView& data, const Reducer& reducer) {
  return start(in_place(Collective::all_reduce, data, reducer));
}
void Communicator::broadcast(const TensorView& data, int root) {
  run(in_place(Collective::broadcast, data, {}, root));
}
Work Communicator::start_broadcast(const TensorView& data, int root) {
  return start(in_place(Collective::broadcast, data, {}, root));
}
void Communicator::all_gather(const TensorView& input, const TensorView& output, int dimension) {
  run(along(Collective::all_gather, input, output, dimension));
}
Work Communicator::start_all_gather(const TensorView& input, const TensorView& output,
                                    int dimension) {
  return start(along(Collective::all_gather, input, output, dimension));
}
void Communicator::reduce_scatter(const TensorView& input, const TensorView& output, int dimension,
                                  const Reducer& reducer) {
  run(along(Collective::reduce_scatter, input, output, dimension, reducer));
}
Work Communicator::start_reduce_scatter(const TensorView& input, const TensorView& output,
                                        int dimension, const Reducer& reducer) {
  return start(along(Collective::reduce_scatter, input, output, dimension, reducer));
}

}  // namespace capstan
