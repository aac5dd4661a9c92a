// SPDX-License-Identifier: Apache-2.0
#include "core/communicator/tensor_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "capstan/error.hpp"
#include "core/communicator/checked_call.hpp"
#include "core/platform/device/device_memory.hpp"

namespace capstan {
namespace {

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

bool has_blocks(Collective collective) {
  using enum Collective;
  return collective != broadcast && collective != reduce && collective != all_reduce &&
         collective != scan && collective != exscan;
}

/// Checks a request, and works out what each of its tensors is to look like.
class TensorChecker {
 public:
  TensorChecker(const TensorRequest& request, int rank, int ranks)
      : request_(request), rank_(rank), ranks_(ranks), collective_(request.collective) {}

  TensorCall check() const {
    check_numbers();
    if (request_.inputs.size() != 1) return {};
    check_root();
    TensorCall call{.in_place = request_.outputs.empty()};
    if (uses_input()) call.input = reachable(request_.inputs.front(), call.in_place);
    if (!call.in_place && uses_output()) call.output = reachable(request_.outputs.front(), true);
    if (has_blocks(collective_))
      set_blocks(call);
    else
      check_whole(call);
    call.request = plain_request(call);
    return call;
  }

 private:
  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> text, Args&&... args) const {
    throw InvalidArgument(fmt::format("rank {}: {}{}", rank_, name_of(collective_),
                                      fmt::format(text, std::forward<Args>(args)...)));
  }

  /// Refuses collectives that tensors do not have, and numbers of tensors that they do not take.
  void check_numbers() const {
    using enum Collective;
    if (collective_ == barrier || static_cast<std::size_t>(collective_) >= all_collectives().size())
      throw InvalidArgument(
          fmt::format("rank {}: a call on tensors is any collective but the barrier", rank_),
          ErrorCode::not_supported);
    const std::size_t inputs = request_.inputs.size(), outputs = request_.outputs.size();
    const bool has_in_place = collective_ == broadcast || collective_ == all_reduce ||
                              collective_ == all_to_all || collective_ == scan ||
                              collective_ == exscan;
    const bool fused = collective_ == all_reduce && outputs == 0;
    if ((inputs != 1 && !fused) || outputs > 1 || (outputs == 0 && !has_in_place))
      refuse(" of {} input and {} output tensors: TensorRequest says how many", inputs, outputs);
  }

  void check_root() const {
    if (has_root(collective_) && (request_.root < 0 || request_.root >= ranks_))
      refuse(": root {} does not exist: ranks are 0 to {}", request_.root, ranks_ - 1);
  }

  bool is_root() const { return rank_ == request_.root; }
  bool uses_input() const {
    using enum Collective;
    const bool root_only = collective_ == scatter || collective_ == scatter_v ||
                           (collective_ == broadcast && !request_.outputs.empty());
    return !root_only || is_root();
  }
  bool uses_output() const {
    using enum Collective;
    const bool root_only =
        collective_ == reduce || collective_ == gather || collective_ == gather_v;
    return !root_only || is_root();
  }

  TensorSide reachable(const TensorView& tensor, bool is_written) const {
    require_reachable(rank_, name_of(collective_), tensor);
    if (is_written) require_writable(rank_, name_of(collective_), tensor);
    return {tensor, request_.dimension, {}};
  }

  void check_whole(TensorCall& call) const {
    const auto& [input, output] = std::tie(call.input, call.output);
    if (input && output &&
        (input->tensor.type != output->tensor.type || input->tensor.shape != output->tensor.shape))
      refuse(" of {} and {}: input and output must agree in type and shape",
             to_string(input->tensor), to_string(output->tensor));
    call.shape = (input ? input : output)->tensor.shape;
    if (call.shape.size() < 2) call.shape.clear();  // the count says as much
  }

  /// Where there are blocks, the lengths of input and output along the dimension, of which either
  /// may be left to the tensors.
  void set_blocks(TensorCall& call) const {
    using enum Collective;
    const bool divides_input = collective_ == reduce_scatter || collective_ == scatter ||
                               collective_ == reduce_scatter_v || collective_ == scatter_v ||
                               collective_ == all_to_all || collective_ == all_to_all_v;
    const bool divides_output = collective_ == all_gather || collective_ == gather ||
                                collective_ == all_gather_v || collective_ == gather_v ||
                                collective_ == all_to_all || collective_ == all_to_all_v;
    check_lengths();
    const TensorSide& any = call.input ? *call.input : *call.output;
    const auto d = static_cast<std::size_t>(request_.dimension);
    if (request_.dimension < 0 || d >= any.tensor.shape.size()) refuse_shapes(call);
    const std::int64_t own = own_length(call, divides_input, divides_output);
    const std::vector<std::int64_t> equal(static_cast<std::size_t>(ranks_), own);
    const bool given = has_counts(collective_);
    if (call.input && divides_input) call.input->lengths = given ? request_.lengths : equal;
    if (call.output && divides_output)
      call.output->lengths = !given                        ? equal
                             : collective_ == all_to_all_v ? request_.receive_lengths
                                                           : request_.lengths;
    if (call.in_place) call.input->lengths = equal;
    if (call.input) require_length(call, *call.input, own);
    if (call.output) require_length(call, *call.output, own);
    if (call.input && call.output && !agree(*call.input, *call.output)) refuse_shapes(call);
    call.shape = any.tensor.shape;
    call.shape[d] = given ? 1 : own;
  }

  void check_lengths() const {
    const std::size_t wanted = has_counts(collective_) ? static_cast<std::size_t>(ranks_) : 0;
    const auto fits = [&](const std::vector<std::int64_t>& lengths, std::size_t count) {
      return lengths.size() == count &&
             std::ranges::all_of(lengths, [](std::int64_t length) { return length >= 0; });
    };
    const bool both = collective_ == Collective::all_to_all_v;
    if (!fits(request_.lengths, wanted) || !fits(request_.receive_lengths, both ? wanted : 0))
      refuse(": {} and {} lengths were given: pass one for each of the {} ranks, none negative",
             request_.lengths.size(), request_.receive_lengths.size(), ranks_);
  }

  std::int64_t length_of(const TensorSide& side) const {
    return side.tensor.shape[static_cast<std::size_t>(request_.dimension)];
  }

  /// The length of this rank's block, of what every rank passes.
  std::int64_t own_length(const TensorCall& call, bool divides_input, bool divides_output) const {
    if (has_counts(collective_)) return request_.lengths[static_cast<std::size_t>(rank_)];
    if (!divides_input) return length_of(*call.input);
    const TensorSide& other = call.output ? *call.output : *call.input;
    if (other.tensor.shape.size() <= static_cast<std::size_t>(request_.dimension))
      refuse_shapes(call);
    if (!divides_output) return length_of(other);
    if (length_of(other) % ranks_ != 0) refuse_shapes(call);
    return length_of(other) / ranks_;
  }

  void require_length(const TensorCall& call, const TensorSide& side, std::int64_t own) const {
    const auto& lengths = side.lengths;
    std::int64_t expected = lengths.empty() ? own : 0;
    for (const std::int64_t length : lengths)
      if (__builtin_add_overflow(expected, length, &expected)) refuse_shapes(call);
    if (side.tensor.shape.size() <= static_cast<std::size_t>(request_.dimension) ||
        length_of(side) != expected)
      refuse_shapes(call);
  }

  bool agree(const TensorSide& input, const TensorSide& output) const {
    auto shape = input.tensor.shape;
    shape[static_cast<std::size_t>(request_.dimension)] = length_of(output);
    return input.tensor.type == output.tensor.type && shape == output.tensor.shape;
  }

  [[noreturn]] void refuse_shapes(const TensorCall& call) const {
    const auto text = [](const std::optional<TensorSide>& side) {
      return side ? to_string(side->tensor) : std::string{"nothing"};
    };
    refuse(
        " along dimension {} from {} to {} among {} ranks: the two must agree in type and shape, "
        "but for that dimension, which TensorRequest tells the length of",
        request_.dimension, text(call.input), text(call.output), ranks_);
  }

  Request plain_request(const TensorCall& call) const {
    const TensorSide& any = call.input ? *call.input : *call.output;
    Request plain;
    plain.collective = collective_;
    plain.type = any.tensor.type;
    plain.foreign = request_.foreign;
    plain.reducer = request_.reducer;
    plain.root = request_.root;
    if (call.input) plain.input = call.input->tensor.data;
    if (call.input) plain.input_count = call.input->tensor.count();
    const std::optional<TensorSide>& output = call.in_place ? call.input : call.output;
    if (output) plain.output = output->tensor.data;
    if (output) plain.output_count = output->tensor.count();
    plain.counts = counts(request_.lengths, any);
    plain.receive_counts = counts(request_.receive_lengths, any);
    return plain;
  }

  /// Elements of blocks with these lengths along the dimension.
  std::vector<Elements> counts(const std::vector<std::int64_t>& lengths,
                               const TensorSide& side) const {
    std::vector<Elements> counts;
    TensorView block = side.tensor;
    for (const std::int64_t length : lengths) {
      block.shape[static_cast<std::size_t>(request_.dimension)] = length;
      counts.push_back(block.count());
    }
    return counts;
  }

  const TensorRequest& request_;
  const int rank_, ranks_;
  const Collective collective_;
};

}  // namespace

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

void require_writable(int rank, std::string_view call, const TensorView& tensor) {
  if (tensor.overlaps_itself())
    throw InvalidArgument(
        fmt::format("rank {}: {}: elements of the tensor {}, which is written, share memory (a "
                    "stride of 0, or windows that overlap), so a result for each has no place: "
                    "pass memory of its own for each",
                    rank, call, to_string(tensor)));
}

TensorCall check(const TensorRequest& request, int rank, int ranks) {
  return TensorChecker{request, rank, ranks}.check();
}

bool TensorSide::travels_as_it_is() const {
  if (!tensor.is_dense()) return false;
  if (lengths.empty()) return true;
  const auto outer = std::span{tensor.shape}.first(static_cast<std::size_t>(dimension));
  return std::ranges::all_of(outer, [](auto length) { return length == 1; });
}

/// Calls visit(block of the tensor, its place in dense memory).
template <class Visit>
void TensorSide::each_block(std::byte* memory, Visit visit) const {
  if (lengths.empty()) return visit(tensor, dense(tensor, memory));
  std::int64_t first = 0;
  for (const std::int64_t length : lengths) {
    const TensorView block = tensor.slice(dimension, first, length);
    visit(block, dense(block, memory));
    memory += bytes_of(block.count(), size_of(block.type)).value();
    first += length;
  }
}

void TensorSide::pack(std::byte* to, const CopyRun& copy_run) const {
  each_block(
      to, [&](const TensorView& block, const TensorView& place) { copy(place, block, copy_run); });
}

void TensorSide::unpack(const std::byte* from, const CopyRun& copy_run) const {
  each_block(const_cast<std::byte*>(from), [&](const TensorView& block, const TensorView& place) {
    copy(block, place, copy_run);
  });
}

}  // namespace capstan
