#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "bindings/nccl/comm.hpp"

namespace capstan::nccl {

/// One call of a program, or all messages of one communicator in a group.
struct Call {
  std::shared_ptr<Comm> comm;
  cudaStream_t stream;
  std::function<Work(Communicator&)> start;  ///< empty: an exchange of these messages
  std::vector<Message> messages{};
};

/// Makes calls that happen together. Without a stream, or with one of NVIDIA's, which it empties
/// first, they have ended when it returns; throws the first error. In streams of the stand-in they
/// wait for what is before them: errors are the communicator's and the stream's.
ncclResult_t run(std::vector<Call> calls);

}  // namespace capstan::nccl
