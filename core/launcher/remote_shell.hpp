#pragma once

#include <string>
#include <string_view>

namespace capstan::launcher {

/// A shell script that is called as rsh is, [OPTION...] HOST COMMAND..., for other launchers to
/// start their daemons with: Open MPI's plm_rsh_agent, MPICH's -launcher-exec. It runs `agent`,
/// such as "ip netns exec {host}", with `capstan`, the path of this program there.
///
/// A shell on the host reads the command once, as with rsh. The agent may start another shell in
/// between (as ssh does) or not. So the command is passed as hexadecimal digits, which no shell
/// changes, and `capstan shell` decodes them. Throws InvalidArgument for an agent without {host} or
/// a path that an agent could garble.
std::string rsh_script(const std::string& agent, const std::string& capstan);

/// Implements `capstan shell`: becomes a shell that reads the command. Does not return; throws
/// InvalidArgument for what is not text in hexadecimal digits, SystemError without a shell.
[[noreturn]] void become_shell(std::string_view hexadecimal);

}  // namespace capstan::launcher
