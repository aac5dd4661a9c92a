// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace capstan {

/// Makes process_exits() true from the moment on when exit() begins to destroy what exists now.
/// Called by each communicator after it has been made: exit() runs its handlers, and destroys
/// static objects, in the reverse order. Cheap to repeat; does nothing after some hundred times.
void watch_for_exit();

/// Whether exit() destroys static objects, in this thread or another one.
bool process_exits();

}  // namespace capstan
