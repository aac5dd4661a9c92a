// SPDX-License-Identifier: Apache-2.0
#include "core/extras/backends/backend_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace capstan {
namespace {

/// The number of slices of the larger tensor, where there is one.
struct Slices {
  int of_input = 1, of_output = 1;
};

Slices slices_of(Collective collective, int ranks) {
  if (collective == Collective::all_gather) return {.of_output = ranks};
  if (collective == Collective::reduce_scatter) return {.of_input = ranks};
  return {};
}

void require_tensor(const Caller& caller, std::string_view call, std::string_view name,
                    const TensorView& tensor) {
  const bool has_strides = !tensor.strides.empty();
  if (static_cast<std::size_t>(tensor.type) >= all_data_types().size())
    refuse_argument(caller, call, fmt::format("the type of the {} does not exist", name));
  if (has_strides && tensor.strides.size() != tensor.shape.size())
    refuse_argument(caller, call,
                    fmt::format("the {} has {} lengths and {} strides", name, tensor.shape.size(),
                                tensor.strides.size()));
  if (std::ranges::any_of(tensor.shape, [](std::int64_t length) { return length < 0; }))
    refuse_argument(caller, call, fmt::format("the {} has a negative length", name));
  if (!tensor.data && tensor.count() > Elements{0})
    refuse_argument(caller, call,
                    fmt::format("the {} {} is null: pass its memory", name, to_string(tensor)));
}

/// Throws unless the larger tensor is `slices` times as long along the dimension.
void require_shapes(const Caller& caller, std::string_view call, const TensorView& input,
                    const TensorView& output, int dimension, const Slices& slices) {
  if (input.type != output.type)
    refuse_argument(
        caller, call,
        fmt::format("input {} and output {} differ in type", to_string(input), to_string(output)));
  std::vector<std::int64_t> in = input.shape, out = output.shape;
  if (slices.of_input * slices.of_output > 1) {
    if (dimension < 0 || static_cast<std::size_t>(dimension) >= in.size())
      refuse_argument(caller, call,
                      fmt::format("there is no dimension {} of {}", dimension, to_string(input)));
    in[static_cast<std::size_t>(dimension)] *= slices.of_output;
    if (static_cast<std::size_t>(dimension) < out.size())
      out[static_cast<std::size_t>(dimension)] *= slices.of_input;
  }
  if (in != out)
    refuse_argument(caller, call,
                    fmt::format("input {} and output {} do not fit together, for {} ranks and "
                                "dimension {}",
                                to_string(input), to_string(output), caller.ranks, dimension));
}

/// Whether the slices along a dimension follow one another in memory, as blocks travel.
bool lies_as_it_travels(const TensorView& tensor, int dimension, int slices) {
  if (!tensor.is_dense()) return false;
  return slices == 1 || std::all_of(tensor.shape.begin(), tensor.shape.begin() + dimension,
                                    [](std::int64_t length) { return length == 1; });
}

/// Memory for a tensor that does not lie as it travels, or is staged; null for others.
std::shared_ptr<PackedElements> packing_for(const Caller& caller, std::string_view call,
                                            const TensorView& tensor, int dimension, int slices) {
  const auto runtime = is_on_device(tensor) ? caller.staging : nullptr;
  if (!runtime && lies_as_it_travels(tensor, dimension, slices)) return nullptr;
  if (is_on_device(tensor) && !runtime)
    throw NotSupported(
        caller.backend,
        fmt::format("rank {}: {}: {}: {} on a device would have to be packed: make it dense, and "
                    "gather or scatter along dimension 0",
                    caller.rank, caller.backend, call, to_string(tensor)));
  return std::make_shared<PackedElements>(tensor, runtime);
}

/// Calls visit(slice of the tensor, block of packed memory) for each slice.
template <class Visit>
void for_each_slice(const TensorView& tensor, int dimension, int slices, std::byte* packed,
                    const Visit& visit) {
  if (slices == 1 || tensor.count() == Elements{0})
    return visit(tensor, TensorView{packed, tensor.type, tensor.shape});
  const std::int64_t length = tensor.shape[static_cast<std::size_t>(dimension)] / slices;
  for (int i = 0; i < slices; ++i) {
    const TensorView slice = tensor.slice(dimension, i * length, length);
    visit(slice, TensorView{packed, slice.type, slice.shape});
    packed += bytes_of(slice.count(), size_of(slice.type)).value();
  }
}

/// Shape::count of a request.
Elements count_of(const Request& request, int ranks) {
  switch (request.collective) {
    case Collective::broadcast:
    case Collective::scatter:
    case Collective::reduce_scatter:
      return request.output_count;
    case Collective::all_to_all:
      return request.output_count / static_cast<std::uint64_t>(ranks);
    default:
      return request.input_count;
  }
}

void check_operation(const Request& request, const Caller& caller, std::string_view call) {
  if (!reduces(request.collective)) return;
  const auto& user = request.reducer.user();
  if (user && (!user->accumulate || user->type != request.type))
    refuse_argument(caller, call,
                    fmt::format("the operation '{}' has no function, or one for {} instead of {}",
                                user->name, name_of(user->type), name_of(request.type)));
  if (!user && !supports(request.type, request.reducer.op()))
    refuse_argument(caller, call,
                    fmt::format("{} is not defined for {}: choose another operation or type",
                                name_of(request.reducer.op()), name_of(request.type)));
}

void check_buffer(const Caller& caller, std::string_view call, std::string_view name,
                  const void* data, Elements given, Elements needed) {
  if (needed == Elements{0}) return;
  if (given != needed)
    refuse_argument(caller, call,
                    fmt::format("the {} holds {} elements, but {} are needed", name, given.value(),
                                needed.value()));
  if (!data)
    refuse_argument(caller, call,
                    fmt::format("the {} is null, but is to hold {} elements: pass "
                                "its memory",
                                name, given.value()));
}

}  // namespace

void refuse_argument(const Caller& caller, std::string_view call, const std::string& text) {
  throw InvalidArgument(
      fmt::format("rank {}: {}: {}: {}", caller.rank, caller.backend, call, text));
}

void check(const Request& request, const Caller& caller) {
  const std::string_view call = name_of(request.collective);
  if (has_root(request.collective) && (request.root < 0 || request.root >= caller.ranks))
    refuse_argument(
        caller, call,
        fmt::format("root {} does not exist: ranks are 0 to {}", request.root, caller.ranks - 1));
  check_operation(request, caller, call);
  if (has_counts(request.collective)) return;  // these are left to the library
  const auto [input, output] = lengths(request, caller.rank, caller.ranks);
  check_buffer(caller, call, "input", request.input, request.input_count, input);
  check_buffer(caller, call, "output", request.output, request.output_count, output);
}

BufferLengths lengths(const Request& request, int rank, int ranks) {
  const Shape shape{.count = count_of(request, ranks), .root = request.root};
  return Contract{request.collective, shape, ranks}.lengths(rank);
}

std::string describe(const Request& request) {
  const std::string_view call = name_of(request.collective);
  if (request.collective == Collective::barrier) return std::string{call};
  const Elements count = std::max(request.input_count, request.output_count);
  std::string text = fmt::format("{}({} x {}", call, count.value(), name_of(request.type));
  if (reduces(request.collective))
    text += fmt::format(", {}", request.reducer.user() ? request.reducer.user()->name
                                                       : name_of(request.reducer.op()));
  if (has_root(request.collective)) text += fmt::format(", root {}", request.root);
  return text + ")";
}

std::string describe(const Message& message) {
  const auto number = [](int value, int any) {
    return value == any ? std::string{"any"} : fmt::to_string(value);
  };
  return fmt::format("{}({} x {}, {} {}, tag {})", message.sends ? "send" : "receive",
                     message.count.value(), name_of(message.type), message.sends ? "to" : "from",
                     number(message.peer, any_source), number(message.tag, any_tag));
}

BackendCall::BackendCall(const Caller& caller, Collective collective, const TensorView& input,
                         const TensorView& output, const Reducer& reducer, int root,
                         int dimension) {
  const std::string_view call = name_of(collective);
  const Slices slices = slices_of(collective, caller.ranks);
  require_tensor(caller, call, "input", input);
  require_tensor(caller, call, "output", output);
  require_shapes(caller, call, input, output, dimension, slices);
  request_.collective = collective;
  request_.type = input.type;
  request_.input_count = input.count();
  request_.output_count = output.count();
  request_.reducer = reducer;
  request_.root = root;
  const bool in_place = input.data == output.data && input.shape == output.shape;
  place_output(caller, output, dimension, slices.of_output);
  if (in_place)
    request_.input = request_.output;
  else
    place_input(caller, input, dimension, slices.of_input);
}

void BackendCall::place_input(const Caller& caller, const TensorView& input, int dimension,
                              int slices) {
  request_.input = input.data;
  const auto packing = packing_for(caller, name_of(request_.collective), input, dimension, slices);
  if (!packing) return;
  request_.input = packing->data();
  for_each_slice(
      input, dimension, slices, packing->data(),
      [&](const TensorView& slice, const TensorView& block) { packing->copy(block, slice); });
  finish_ = [packing, then = finish_] {
    if (then) then();
  };
}

/// The packed memory holds what the output holds: a rank that gets nothing keeps its output.
void BackendCall::place_output(const Caller& caller, const TensorView& output, int dimension,
                               int slices) {
  request_.output = output.data;
  const auto packing = packing_for(caller, name_of(request_.collective), output, dimension, slices);
  if (!packing) return;
  request_.output = packing->data();
  for_each_slice(
      output, dimension, slices, packing->data(),
      [&](const TensorView& slice, const TensorView& block) { packing->copy(block, slice); });
  finish_ = [packing, output, dimension, slices] {
    for_each_slice(
        output, dimension, slices, packing->data(),
        [&](const TensorView& slice, const TensorView& block) { packing->copy(slice, block); });
  };
}

}  // namespace capstan
