// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/nccl/comm.hpp"

namespace capstan::nccl {

/// One call of a program, or all messages of one communicator in a group.
struct Call {
  std::shared_ptr<Comm> comm;
  cudaStream_t stream;
  std::optional<Request> request{};  ///< empty: an exchange of these messages
  std::vector<Message> messages{};
};

/// Makes calls that happen together. On memory of devices they wait in streams for what is before
/// them: errors that come later are the communicator's, and the stream's with the stand-in. Calls
/// on host memory have ended when it returns, without a stream and with one of NVIDIA's, which it
/// empties first. Throws the first error.
ncclResult_t run(std::vector<Call> calls);

/// The time that the calls would take together: a communicator makes its calls one after the other,
/// and communicators run beside each other.
std::chrono::nanoseconds predicted_time(const std::vector<Call>& calls);

}  // namespace capstan::nccl
