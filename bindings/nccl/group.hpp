// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "bindings/nccl/comm.hpp"

namespace capstan::nccl {

/// Runs a call of the program: at once, or at the end of the thread's outermost group.
ncclResult_t submit(std::shared_ptr<Comm> comm, cudaStream_t stream, const Request& request);
/// Sends or receives a message, likewise. A group makes one exchange of all messages of one
/// communicator.
ncclResult_t submit(std::shared_ptr<Comm> comm, cudaStream_t stream, const Message& message);

/// Makes a communicator and returns the result of `make`. In a group all are made together at its
/// end, each on a thread of its own, and `otherwise` is returned now.
ncclResult_t create(std::function<ncclResult_t()> make, ncclResult_t otherwise);

void open_group();
ncclResult_t close_group();
/// Closes the group like close_group(), but tells in `info` how long its calls would take instead
/// of making them. A group within another tells nothing.
ncclResult_t simulate_group(ncclSimInfo_t* info);
/// Drops what the group holds.
void drop_group();

}  // namespace capstan::nccl
