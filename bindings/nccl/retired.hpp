// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "capstan/async/streams.hpp"
#include "capstan/communicator.hpp"
#include "capstan/deadline.hpp"

namespace capstan::nccl {

/// Destroys them on a thread of its own, as that waits for calls in streams and for peers to go: a
/// program may destroy the communicators of several ranks one after the other. Calls in streams may
/// hold up the communicator that they were made from, too. exit() waits for such threads, for a
/// quarter of a minute at most.
void retire(std::shared_ptr<StreamCollectives> streams, std::unique_ptr<Communicator> world);

/// Waits until all that were given to retire() are gone. False: not in time.
bool await_retired(Deadline deadline);

}  // namespace capstan::nccl
