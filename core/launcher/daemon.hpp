#pragma once

#include <string>

namespace capstan::launcher {

/// The other end of a RemoteHost: starts ranks on this host as the launcher, at standard input and
/// output, asks it to, and ends when they have ended. When the launcher is gone it ends them.
/// Returns its exit status.
int serve_launcher(const std::string& version);

}  // namespace capstan::launcher
