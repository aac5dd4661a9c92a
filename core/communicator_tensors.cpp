// Calls on tensors and on many buffers: what is packed before and unpacked after them.

#include <fmt/format.h>

#include <cstring>
#include <functional>

#include "core/communicator_prepared.hpp"

namespace capstan {
namespace {

using Staging = std::shared_ptr<std::vector<std::byte>>;

Bytes bytes_of(const TensorView& tensor) {
  return capstan::bytes_of(tensor.count(), size_of(tensor.type));
}

Staging staging_for(const TensorView& tensor) {
  return std::make_shared<std::vector<std::byte>>(bytes_of(tensor).value());
}

/// The same shape in dense memory.
TensorView dense(const TensorView& like, void* data) {
  return {data, like.type, like.shape};
}

Request request_of(Collective collective, const TensorView& input, const TensorView& output,
                   const Reducer& reducer = {}, int root = 0) {
  return {.collective = collective,
          .type = output.type,
          .input = input.data == output.data ? nullptr : input.data,
          .input_count = input.count(),
          .output = output.data,
          .output_count = output.count(),
          .reducer = reducer,
          .root = root};
}

void require_host(const TensorView& tensor) {
  const DeviceType type = tensor.device.type;
  if (type != DeviceType::cpu && type != DeviceType::cuda_host && type != DeviceType::rocm_host)
    throw InvalidArgument(fmt::format("the tensor {} is on device {}:{}: pass one in host memory",
                                      to_string(tensor), static_cast<int>(type),
                                      tensor.device.index));
}

/// `large` is `small` with the length of one dimension times the number of ranks.
void require_slices(const char* call, int rank, int ranks, const TensorView& small,
                    const TensorView& large, int dimension) {
  require_host(small);
  require_host(large);
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

/// Runs one after the other what is not empty.
std::function<void()> sequence(std::function<void()> first, std::function<void()> second) {
  if (!second) return first;
  return [first = std::move(first), second = std::move(second)] {
    first();
    second();
  };
}

}  // namespace

Communicator::Prepared Communicator::prepare_in_place(Collective collective, const TensorView& data,
                                                      int root, const Reducer& reducer) const {
  require_host(data);
  const Staging staging = data.is_dense() ? nullptr : staging_for(data);
  const TensorView staged = staging ? dense(data, staging->data()) : data;
  Prepared prepared = prepare(request_of(collective, staged, staged, reducer, root));
  Task& task = prepared.main;
  task.call.tensor = data.shape;
  prepared.output.data = data.data;
  if (!staging) return prepared;
  task.keep.push_back(staging);
  task.pack = sequence([data, staged] { copy(staged, data); }, task.pack);
  task.unpack = [data, staged] { copy(data, staged); };
  return prepared;
}

Communicator::Prepared Communicator::prepare_gather(const TensorView& input,
                                                    const TensorView& output, int dimension) const {
  require_slices("all_gather", rank(), size(), input, output, dimension);
  const Staging block = input.is_dense() ? nullptr : staging_for(input);
  const Staging blocks = slices_are_blocks(output, dimension) ? nullptr : staging_for(output);
  const TensorView sent = block ? dense(input, block->data()) : input;
  const TensorView received = blocks ? dense(output, blocks->data()) : output;
  Prepared prepared = prepare(request_of(Collective::all_gather, sent, received));
  Task& task = prepared.main;
  task.call.tensor = input.shape;
  prepared.output.data = output.data;
  task.keep = {block, blocks};
  if (block) task.pack = [=] { copy(sent, input); };
  if (blocks)
    task.unpack = [=, ranks = size(), length = bytes_of(input).value()] {
      for (int peer = 0; peer < ranks; ++peer)
        copy(slice_of(output, dimension, peer, ranks),
             dense(input, blocks->data() + static_cast<std::size_t>(peer) * length));
    };
  return prepared;
}

Communicator::Prepared Communicator::prepare_scatter(const TensorView& input,
                                                     const TensorView& output, int dimension,
                                                     const Reducer& reducer) const {
  require_slices("reduce_scatter", rank(), size(), output, input, dimension);
  const Staging blocks = slices_are_blocks(input, dimension) ? nullptr : staging_for(input);
  const Staging block = output.is_dense() ? nullptr : staging_for(output);
  const TensorView sent = blocks ? dense(input, blocks->data()) : input;
  const TensorView received = block ? dense(output, block->data()) : output;
  Prepared prepared = prepare(request_of(Collective::reduce_scatter, sent, received, reducer));
  Task& task = prepared.main;
  task.call.tensor = output.shape;
  prepared.output.data = output.data;
  task.keep.insert(task.keep.end(), {block, blocks});
  if (block) task.unpack = [=] { copy(output, received); };
  if (blocks)
    task.pack = sequence(
        [=, ranks = size(), length = bytes_of(output).value()] {
          for (int peer = 0; peer < ranks; ++peer)
            copy(dense(output, blocks->data() + static_cast<std::size_t>(peer) * length),
                 slice_of(input, dimension, peer, ranks));
        },
        task.pack);
  return prepared;
}

Communicator::Prepared Communicator::prepare_fused(std::vector<Piece> pieces, DataType type,
                                                   const Reducer& reducer) const {
  std::size_t total = 0;
  for (const Piece& piece : pieces) total += piece.size();
  const auto staging = std::make_shared<std::vector<std::byte>>(total);
  Prepared prepared = prepare({.collective = Collective::all_reduce,
                               .type = type,
                               .output = staging->data(),
                               .output_count = Elements{total / size_of(type).value()},
                               .reducer = reducer});
  Task& task = prepared.main;
  task.keep.push_back(staging);
  task.pack = sequence(
      [staging, pieces] {
        auto at = staging->begin();
        for (const Piece& piece : pieces) at = std::ranges::copy(piece, at).out;
      },
      task.pack);
  task.unpack = [staging, pieces] {
    const std::byte* at = staging->data();
    for (const Piece& piece : pieces) {
      std::copy_n(at, piece.size(), piece.data());
      at += piece.size();
    }
  };
  return prepared;
}

void Communicator::run_fused(std::vector<Piece> pieces, DataType type, const Reducer& reducer) {
  run(prepare_fused(std::move(pieces), type, reducer));
}
Work Communicator::start_fused(std::vector<Piece> pieces, DataType type, const Reducer& reducer) {
  return start(prepare_fused(std::move(pieces), type, reducer));
}

void Communicator::all_reduce(const TensorView& data, const Reducer& reducer) {
  run(prepare_in_place(Collective::all_reduce, data, 0, reducer));
}
Work Communicator::start_all_reduce(const TensorView& data, const Reducer& reducer) {
  return start(prepare_in_place(Collective::all_reduce, data, 0, reducer));
}
void Communicator::broadcast(const TensorView& data, int root) {
  run(prepare_in_place(Collective::broadcast, data, root, {}));
}
Work Communicator::start_broadcast(const TensorView& data, int root) {
  return start(prepare_in_place(Collective::broadcast, data, root, {}));
}
void Communicator::all_gather(const TensorView& input, const TensorView& output, int dimension) {
  run(prepare_gather(input, output, dimension));
}
Work Communicator::start_all_gather(const TensorView& input, const TensorView& output,
                                    int dimension) {
  return start(prepare_gather(input, output, dimension));
}
void Communicator::reduce_scatter(const TensorView& input, const TensorView& output, int dimension,
                                  const Reducer& reducer) {
  run(prepare_scatter(input, output, dimension, reducer));
}
Work Communicator::start_reduce_scatter(const TensorView& input, const TensorView& output,
                                        int dimension, const Reducer& reducer) {
  return start(prepare_scatter(input, output, dimension, reducer));
}

}  // namespace capstan
