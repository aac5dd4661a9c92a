// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "capstan/algorithm_selector.hpp"
#include "capstan/backends/backend.hpp"
#include "capstan/communicator.hpp"
#include "capstan/export.hpp"
#include "capstan/observe/profiler.hpp"
#include "capstan/pinned_memory.hpp"

namespace CAPSTAN_EXPORT capstan {

/// The configuration of an Optimizer. The same on all ranks.
struct OptimizerConfig {
  /// Makes a PinnedMemoryManager, for buffers that devices read and write.
  bool use_pinned_memory = true;
  Bytes pinned_memory_limit{std::uint64_t{1} << 30};
  /// Switches the profiler on.
  bool enable_logging = true;
  /// Rules as in Settings::algorithm; empty: the choice is the model's, or what was measured.
  std::string algorithm{};
};

/// Calls collectives of a communicator or of any backend, with a selector, a profiler and pinned
/// memory at hand. Calls that wait are recorded as "AllReduce", those in the background as
/// "AllReduceAsync" when they end, with the algorithm that the selector has chosen. A communicator
/// runs by that algorithm, and its own choice is what is recorded; other backends choose for
/// themselves, and the record has what would have been chosen here.
///
/// Used by one thread at a time. All ranks make the same calls in the same order.
class Optimizer {
 public:
  /// Throws InvalidArgument for a null backend.
  explicit Optimizer(std::shared_ptr<Backend> backend, const OptimizerConfig& config = {});
  /// Takes part in the communicator's collectives, which outlives the optimizer. All ranks make
  /// one.
  explicit Optimizer(Communicator& communicator, const OptimizerConfig& config = {});
  Optimizer(Optimizer&&) noexcept;
  ~Optimizer();

  /// In place, or from one tensor to another of the same shape.
  void all_reduce(const TensorView& data, const Reducer& reducer = {});
  void all_reduce(const TensorView& input, const TensorView& output, const Reducer& reducer = {});
  /// A new tensor. A Tensor that is to be reduced in place is passed as its view().
  [[nodiscard]] Tensor all_reduce(const Tensor& input, const Reducer& reducer = {});
  /// Throws NotSupported where the backend has no operations in the background.
  [[nodiscard]] Work start_all_reduce(const TensorView& data, const Reducer& reducer = {});
  [[nodiscard]] Work start_all_reduce(const TensorView& input, const TensorView& output,
                                      const Reducer& reducer = {});

  /// Any collective.
  void run(const Request& request);
  [[nodiscard]] Work start(const Request& request);

  Profiler& profiler();
  const AlgorithmSelector& selector() const;
  /// Null unless the configuration asked for it.
  PinnedMemoryManager* pinned_memory();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace CAPSTAN_EXPORT capstan
