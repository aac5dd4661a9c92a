// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace capstan {

/// Calls for ever: all-reduces, or broadcasts of rank 0, in which ranks may run ahead. On the way
/// `victims`, a list like "1,2", are killed while all ranks are stopped: nobody notices the first
/// death before the last. What ends this is printed: "lost 1,2: " with the culprits, and the text
/// of the error.
int outlive(const std::string& victims, bool broadcasts);

/// Ranks 2 and 3 of four are killed, stopped, or leave (`how`: "kill", "stop", "leave"). Each call
/// of ranks 0 and 1 that needs a message of rank 2, or is to bring it one, prints its error as
/// "receive lost 2,3: " with the name of the call, the culprits and the text. Rank 0 tries those
/// that any rank could serve when rank 1 has left, too.
int outlive_in_messages(const std::string& how);

}  // namespace capstan
