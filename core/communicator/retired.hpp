// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "capstan/deadline.hpp"

namespace capstan {

/// Calls `destroy` on a thread of its own, as destroying a communicator with calls in streams waits
/// for these and for peers to leave: a program may destroy the communicators of several ranks one
/// after the other. exit() waits for such threads, for a quarter of a minute at most.
void retire(std::function<void()> destroy);

/// Waits until all that was given to retire() is gone. False: not in time.
bool await_retired(Deadline deadline);

}  // namespace capstan
