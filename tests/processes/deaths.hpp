// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace capstan {

/// Calls for ever: all-reduces, or broadcasts of rank 0, in which ranks may run ahead. On the way
/// `victims`, a list like "1,2", are killed while all ranks are stopped: nobody notices the first
/// death before the last. What ends this is printed: "lost 1,2: " with the culprits, and the text
/// of the error.
int outlive(const std::string& victims, bool broadcasts);

}  // namespace capstan
