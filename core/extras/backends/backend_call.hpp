// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "capstan/backends/backend.hpp"
#include "core/extras/backends/packing.hpp"

namespace capstan {

class Backend;

/// The rank that calls, for errors.
struct Caller {
  std::string_view backend;
  int rank;
  int ranks;
  /// The runtime of the device. Its tensors are staged through host memory. Null: tensors on
  /// devices go to the library as they are.
  std::shared_ptr<DeviceRuntime> staging{};
};

Caller caller_of(const Backend& backend);

/// "rank 1: mpi: all_reduce: ...".
[[noreturn]] void refuse_argument(const Caller& caller, std::string_view call,
                                  const std::string& text);

/// Throws InvalidArgument for a request that cannot work, before anything is sent.
void check(const Request& request, const Caller& caller);

/// The elements of its buffers that a rank uses; not for collectives with a count per rank.
BufferLengths lengths(const Request& request, int rank, int ranks);

/// "all_reduce(1000 x f32, sum)", "send(3 x i32, to 1, tag 0)".
std::string describe(const Request& request);
std::string describe(const Message& message);

/// One collective on tensors as a request on contiguous memory: tensors that do not lie as they
/// travel are packed into memory of the call, and unpacked at its end. Hidden, as the public header
/// that names it would have it exported.
class [[gnu::visibility("hidden")]] BackendCall {
 public:
  /// Throws InvalidArgument. Reads the input if it has to be packed.
  BackendCall(const Caller& caller, Collective collective, const TensorView& input,
              const TensorView& output, const Reducer& reducer, int root, int dimension);

  const Request& request() const { return request_; }
  /// Unpacks the output; empty if there is nothing to do. Keeps the memory of the call.
  const std::function<void()>& finish() const { return finish_; }

 private:
  void place_input(const Caller& caller, const TensorView& input, int dimension, int slices);
  void place_output(const Caller& caller, const TensorView& output, int dimension, int slices);

  Request request_;
  std::function<void()> finish_;
};

}  // namespace capstan
