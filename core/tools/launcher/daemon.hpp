// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace capstan::launcher {

/// The other end of a RemoteHost. Starts ranks on this host by orders of the launcher, which come
/// over standard input, and returns when the ranks have ended. Ends the ranks when the launcher is
/// gone. Returns the daemon's exit status.
int serve_launcher(const std::string& version);

}  // namespace capstan::launcher
