// SPDX-License-Identifier: Apache-2.0

// Requests in C and what they mean; explanations of them.

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "bindings/c/handles.hpp"
#include "capstan/collective.hpp"

namespace capstan::c {
namespace {

Reducer to_plain_reducer(capstan_op op, const capstan_operation* operation, std::int32_t scales,
                         double factor) {
  if (operation && scales) refuse("an operation of the program cannot be scaled");
  if (operation) return of(operation).reducer;
  const auto known = checked<ReduceOp>(op, all_reduce_ops().size(), "the operation");
  if (!scales) return known;
  if (known != ReduceOp::sum) refuse("only sums are scaled: pass CAPSTAN_SUM");
  return Reducer::premultiplied_sum(factor);
}

/// The operation of a request of either kind.
Reducer to_reducer(const auto& given) {
  const Reducer plain = to_plain_reducer(given.op, given.operation, given.scales, given.factor);
  return given.reproducible == CAPSTAN_REPRODUCIBLE_DEFAULT
             ? plain
             : plain.kept(to_promise(given.reproducible));
}

std::vector<Elements> to_counts(const std::size_t* counts, int ranks, const char* name) {
  const std::size_t* const first = &required(counts, name);
  std::vector<Elements> own;
  std::ranges::transform(first, first + ranks, std::back_inserter(own),
                         [](std::size_t count) { return Elements{count}; });
  return own;
}

/// The buffers' lengths. What is too long for any memory is left to the call to refuse, but sums
/// must not wrap around before it.
BufferLengths lengths_of(const Request& request, Elements count, const Communicator& communicator) {
  if (request.collective == Collective::all_to_all_v) {
    const auto sum = [](const std::vector<Elements>& counts) {
      return std::accumulate(counts.begin(), counts.end(), Elements{0});
    };
    return {sum(request.counts), sum(request.receive_counts)};
  }
  const auto ranks = static_cast<std::uint64_t>(communicator.size());
  if (count.value() > std::numeric_limits<std::uint64_t>::max() / ranks)
    refuse("the count of {} elements exceeds the memory of any process", count.value());
  const Shape shape{.count = count, .root = request.root, .counts = request.counts};
  return Contract{request.collective, shape, communicator.size()}.lengths(communicator.rank());
}

TensorView to_tensor(const capstan_tensor& tensor) {
  if (tensor.dimensions < 0) refuse("a tensor has {} dimensions", tensor.dimensions);
  const auto dimensions = static_cast<std::size_t>(tensor.dimensions);
  std::vector<std::int64_t> shape, strides;
  if (dimensions > 0) {
    const std::int64_t* const first = &required(tensor.shape, "the shape of a tensor");
    shape.assign(first, first + dimensions);
    if (tensor.strides) strides.assign(tensor.strides, tensor.strides + dimensions);
  }
  const Device device{
      tensor.device_type == 0 ? DeviceType::cpu : static_cast<DeviceType>(tensor.device_type),
      tensor.device};
  return {tensor.data, checked_type(tensor.type), std::move(shape), std::move(strides), device};
}

std::vector<TensorView> to_tensors(const capstan_tensor* tensors, std::size_t count,
                                   const char* name) {
  std::vector<TensorView> views;
  if (count == 0) return views;
  std::for_each_n(&required(tensors, name), count,
                  [&](const capstan_tensor& tensor) { views.push_back(to_tensor(tensor)); });
  return views;
}

TensorRequest to_request(const capstan_tensor_request* given) {
  const auto own = versioned(given, "capstan_tensor_request");
  return {
      .collective = checked<Collective>(own.collective, all_collectives().size(), "the collective"),
      .inputs = to_tensors(own.inputs, own.input_count, "inputs"),
      .outputs = to_tensors(own.outputs, own.output_count, "outputs"),
      .reducer = to_reducer(own),
      .root = own.root,
      .dimension = own.dimension};
}

std::string explanation(const Communicator& communicator, const Request& request,
                        capstan_format format) {
  const std::string text = communicator.explain(request);
  if (format == CAPSTAN_TEXT) return text;
  if (format != CAPSTAN_JSON) refuse("the format {} does not exist", format);
  nlohmann::json json{{"collective", name_of(request.collective)},
                      {"type", name_of(request.type)},
                      {"input_count", request.input_count.value()},
                      {"output_count", request.output_count.value()},
                      {"ranks", communicator.size()},
                      {"explanation", text}};
  if (!request.stream) json["algorithm"] = communicator.algorithm(request);
  return json.dump();
}

}  // namespace

Request to_request(const capstan_request& given, const Communicator& communicator) {
  const int ranks = communicator.size();
  Request request;
  request.collective =
      checked<Collective>(given.collective, all_collectives().size(), "the collective");
  request.type = checked_type(given.type);
  if (has_root(request.collective)) {
    if (given.root < 0 || given.root >= ranks)
      refuse("{}: root {} does not exist: ranks are 0 to {}", name_of(request.collective),
             given.root, ranks - 1);
    request.root = given.root;
  }
  if (reduces(request.collective)) request.reducer = to_reducer(given);
  if (has_counts(request.collective)) request.counts = to_counts(given.counts, ranks, "counts");
  if (request.collective == Collective::all_to_all_v)
    request.receive_counts = to_counts(given.receive_counts, ranks, "receive_counts");
  const auto [input, output] = lengths_of(request, Elements{given.count}, communicator);
  request.input = given.input;
  request.input_count = input;
  request.output = given.output;
  request.output_count = output;
  request.stream = given.stream;
  return request;
}

}  // namespace capstan::c

using namespace capstan::c;

capstan_status capstan_create_operation(const char* name, capstan_type type, int32_t commutative,
                                        capstan_accumulate accumulate, void* context,
                                        capstan_operation** operation) {
  return guarded([&] {
    capstan_operation*& given = required(operation, "operation");
    if (!accumulate) refuse("accumulate is null: pass the function that combines elements");
    given = new capstan_operation(capstan::Reducer::of(capstan::UserOperation{
        .name = &required(name, "name"),
        .type = checked_type(type),
        .commutative = commutative != 0,
        .accumulate = [accumulate, context](void* to, const void* next, std::size_t count) {
          accumulate(to, next, count, context);
        }}));
  });
}

capstan_status capstan_destroy_operation(capstan_operation* operation) {
  return destroy(operation);
}

capstan_status capstan_run(capstan_communicator* communicator, const capstan_request* request) {
  return guarded([&] {
    auto& own = of(communicator).communicator;
    own.run(to_request(versioned(request, "capstan_request"), own));
  });
}

capstan_status capstan_start(capstan_communicator* communicator, const capstan_request* request,
                             capstan_work** work) {
  return give_work(work, [&] {
    auto& own = of(communicator).communicator;
    return own.start(to_request(versioned(request, "capstan_request"), own));
  });
}

capstan_status capstan_create_persistent(capstan_communicator* communicator,
                                         const capstan_request* request,
                                         capstan_persistent** persistent) {
  return guarded([&] {
    capstan_persistent*& given = required(persistent, "persistent");
    auto& own = of(communicator).communicator;
    given = new capstan_persistent(
        capstan::PersistentCall{own, to_request(versioned(request, "capstan_request"), own)});
  });
}

capstan_status capstan_start_persistent(capstan_persistent* persistent) {
  return guarded([&] { of(persistent).call.start(); });
}

capstan_status capstan_wait_persistent(capstan_persistent* persistent) {
  return guarded([&] { of(persistent).call.wait(); });
}

capstan_status capstan_test_persistent(capstan_persistent* persistent, int32_t* ended) {
  return guarded([&] {
    std::int32_t& given = required(ended, "ended");
    const auto& call = of(persistent).call;
    given = call.is_completed() ? 1 : 0;
    if (given == 1) call.wait();  // throws the error of the operation
  });
}

capstan_status capstan_destroy_persistent(capstan_persistent* persistent) {
  return destroy(persistent);
}

capstan_status capstan_run_tensors(capstan_communicator* communicator,
                                   const capstan_tensor_request* request) {
  return guarded([&] { of(communicator).communicator.run(to_request(request)); });
}

capstan_status capstan_start_tensors(capstan_communicator* communicator,
                                     const capstan_tensor_request* request, capstan_work** work) {
  return give_work(work, [&] { return of(communicator).communicator.start(to_request(request)); });
}

capstan_status capstan_explain(const capstan_communicator* communicator,
                               const capstan_request* request, capstan_format format, char** text) {
  return guarded([&] {
    char*& given = required(text, "text");
    const auto& own = of(communicator).communicator;
    given =
        copy_of(explanation(own, to_request(versioned(request, "capstan_request"), own), format));
  });
}

capstan_status capstan_report(const capstan_communicator* communicator, capstan_format format,
                              char** text) {
  return guarded([&] {
    char*& given = required(text, "text");
    const auto& own = of(communicator).communicator;
    if (format != CAPSTAN_TEXT && format != CAPSTAN_JSON)
      refuse("the format {} does not exist", format);
    given = copy_of(format == CAPSTAN_JSON ? own.report_json() : own.report());
  });
}

capstan_status capstan_free_text(char* text) {
  std::free(text);
  return CAPSTAN_OK;
}
