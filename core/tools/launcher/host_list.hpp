// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <istream>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::launcher {

/// A host and how many ranks it takes.
struct HostSlots {
  std::string host;
  int ranks = 1;
  bool operator==(const HostSlots&) const = default;
};

/// Reads "a:2,b,[fd00::7]:4": hosts in the order of ranks, one rank where no number is given. A
/// host that is named twice takes both numbers together. Throws InvalidArgument that names the
/// wrong part and the mistake.
std::vector<HostSlots> parse_hosts(std::string_view text);

/// Reads a file with a host per line, "a:2" or "a slots=2"; "#" starts a comment. Throws as above.
std::vector<HostSlots> read_hostfile(const std::string& path);
/// Reads the content of such a file; `name` is for errors.
std::vector<HostSlots> parse_hostfile(std::istream& file, const std::string& name);

/// The first `ranks` places of `hosts`, all of them if `ranks` is 0. Throws InvalidArgument if
/// there are fewer.
std::vector<HostSlots> first_slots(std::vector<HostSlots> hosts, int ranks);

/// The number of ranks on all hosts.
int ranks_on(const std::vector<HostSlots>& hosts);

/// "a:2,b:1,[fd00::7]:4", as parse_hosts() and mpirun read it.
std::string to_string(const std::vector<HostSlots>& hosts);

/// The words of an agent such as "ssh -oBatchMode=yes {host}", with the host in its place. Throws
/// InvalidArgument if it has no {host}.
std::vector<std::string> agent_command(std::string_view agent, const std::string& host);

/// Throws InvalidArgument for a path that a shell would not read as one word.
void check_path_for_agent(const std::string& path);

}  // namespace capstan::launcher
