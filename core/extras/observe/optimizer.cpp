// SPDX-License-Identifier: Apache-2.0
#include "capstan/observe/optimizer.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>
#include <utility>

#include "capstan/error.hpp"

namespace capstan {
namespace {

/// "AllReduce" for all_reduce.
std::string title_of(Collective collective) {
  std::string title;
  bool begins = true;
  for (const char letter : name_of(collective)) {
    if (letter != '_') title += begins ? static_cast<char>(std::toupper(letter)) : letter;
    begins = letter == '_';
  }
  return title;
}

std::shared_ptr<Backend> checked(std::shared_ptr<Backend> backend) {
  if (!backend) throw InvalidArgument("Optimizer: the backend is null: pass one that exists");
  return backend;
}

Request all_reduce_request(const TensorView& input, const TensorView& output,
                           const Reducer& reducer) {
  Request request;
  request.collective = Collective::all_reduce;
  request.type = input.type;
  request.input = input.data;
  request.output = output.data;
  request.input_count = input.count();
  request.output_count = output.count();
  request.reducer = reducer;
  return request;
}

}  // namespace

class Optimizer::Impl {
 public:
  Impl(int ranks, const OptimizerConfig& config)
      : profiler(config.enable_logging), selector(ranks, config.algorithm) {
    if (config.use_pinned_memory) pinned.emplace(config.pinned_memory_limit);
  }

  /// Calls `call` with the communicator or the backend.
  template <class Call>
  auto with_target(const Call& call) {
    return communicator ? call(*communicator) : call(*backend);
  }
  template <class Call>
  void run(const Request& request, const Call& call) {
    profiler.profile(
        title_of(request.collective), bytes_of(request), [&] { with_target(call); },
        selector.ranks(), algorithm_of(request));
  }
  template <class Call>
  Work start(const Request& request, const Call& call) {
    return profiler.profile_async(
        title_of(request.collective) + "Async", bytes_of(request),
        [&] { return with_target(call); }, selector.ranks(), algorithm_of(request));
  }

  std::shared_ptr<Backend> backend;
  Communicator* communicator = nullptr;
  std::optional<Communicator> ruled;  ///< the communicator with the configuration's rules
  Profiler profiler;
  AlgorithmSelector selector;
  std::optional<PinnedMemoryManager> pinned;

 private:
  static Bytes bytes_of(const Request& request) {
    return capstan::bytes_of(std::max(request.input_count, request.output_count),
                             size_of(request.type));
  }
  /// The algorithm of a call, for its record; empty where it is not known or nothing is recorded.
  std::string algorithm_of(const Request& request) const {
    if (!profiler.enabled()) return {};
    if (communicator) return communicator->algorithm(request);
    if (has_counts(request.collective)) return {};
    const ReduceOp op = reduces(request.collective) ? request.reducer.op() : ReduceOp::sum;
    return selector.select(request.collective, bytes_of(request), request.type, op).algorithm;
  }
};

Optimizer::Optimizer(std::shared_ptr<Backend> backend, const OptimizerConfig& config)
    : impl_(std::make_unique<Impl>(checked(backend)->world_size(), config)) {
  impl_->backend = std::move(backend);
}

Optimizer::Optimizer(Communicator& communicator, const OptimizerConfig& config)
    : impl_(std::make_unique<Impl>(communicator.size(), config)) {
  if (!config.algorithm.empty())
    impl_->ruled.emplace(communicator.with_algorithm(config.algorithm));
  impl_->communicator = impl_->ruled ? &*impl_->ruled : &communicator;
}

Optimizer::Optimizer(Optimizer&&) noexcept = default;
Optimizer::~Optimizer() = default;

void Optimizer::all_reduce(const TensorView& data, const Reducer& reducer) {
  impl_->run(all_reduce_request(data, data, reducer),
             [&](auto& to) { to.all_reduce(data, reducer); });
}

void Optimizer::all_reduce(const TensorView& input, const TensorView& output,
                           const Reducer& reducer) {
  impl_->run(all_reduce_request(input, output, reducer),
             [&](auto& to) { to.all_reduce(input, output, reducer); });
}

Tensor Optimizer::all_reduce(const Tensor& input, const Reducer& reducer) {
  Tensor output{input.type(), input.shape()};
  all_reduce(input.view(), output.view(), reducer);
  return output;
}

Work Optimizer::start_all_reduce(const TensorView& data, const Reducer& reducer) {
  return impl_->start(all_reduce_request(data, data, reducer),
                      [&](auto& to) { return to.start_all_reduce(data, reducer); });
}

Work Optimizer::start_all_reduce(const TensorView& input, const TensorView& output,
                                 const Reducer& reducer) {
  return impl_->start(all_reduce_request(input, output, reducer),
                      [&](auto& to) { return to.start_all_reduce(input, output, reducer); });
}

void Optimizer::run(const Request& request) {
  impl_->run(request, [&](auto& to) { to.run(request); });
}

Work Optimizer::start(const Request& request) {
  return impl_->start(request, [&](auto& to) { return to.start(request); });
}

Profiler& Optimizer::profiler() {
  return impl_->profiler;
}

const AlgorithmSelector& Optimizer::selector() const {
  return impl_->selector;
}

PinnedMemoryManager* Optimizer::pinned_memory() {
  return impl_->pinned ? &*impl_->pinned : nullptr;
}

}  // namespace capstan
