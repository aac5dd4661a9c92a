// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "bindings/nccl/batch.hpp"

namespace capstan::nccl {

/// Whether a call goes by the streams of its communicator: all its buffers are memory of devices.
bool is_on_devices(const Call& call);

/// Puts such calls into their streams. They have ended when it returns where their stream is a
/// default one. Several streams of a communicator wait for each other before and after its calls.
/// ncclInProgress: a communicator that does not block puts them there in the background. Throws
/// what is wrong with a call.
ncclResult_t put_into_streams(std::vector<Call> calls);

}  // namespace capstan::nccl
