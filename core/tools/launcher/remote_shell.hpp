// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace capstan::launcher {

/// A shell script with the command line of rsh, [OPTION...] HOST COMMAND.... Other launchers start
/// their daemons with it: Open MPI's plm_rsh_agent, MPICH's -launcher-exec. The script runs
/// `agent`, such as "ip netns exec {host}", with `capstan`, the path of this program there.
///
/// A shell on the host reads the command once, as with rsh. The agent may start another shell in
/// between (as ssh does) or not. So the script passes the command as hexadecimal digits, which no
/// shell changes, and `capstan shell` decodes them. Throws InvalidArgument for an agent without
/// {host} or a path that an agent could garble.
std::string rsh_script(const std::string& agent, const std::string& capstan);

/// Implements `capstan shell`: becomes a shell that reads the command. Does not return; throws
/// InvalidArgument for anything but text in hexadecimal digits, SystemError without a shell.
[[noreturn]] void become_shell(std::string_view hexadecimal);

}  // namespace capstan::launcher
