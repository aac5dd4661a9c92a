#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/ir/hosts.hpp"
#include "core/settings.hpp"
#include "transports/transport.hpp"

namespace capstan {

// Which transports make up the links of a communicator: shared memory within a host, the network
// between hosts.

/// Hosts by the host_identity() of each rank, or as settings.virtual_hosts pretends.
Hosts hosts_of(const std::vector<std::string>& identities, const Settings& settings);
Hosts virtual_hosts(int ranks, const Settings& settings);

/// The transport of one rank, to be connected. Throws InvalidArgument when the settings ask for
/// what this build lacks, SystemError.
std::unique_ptr<Transport> make_transport(Rank self, const Hosts& hosts, Bytes segment,
                                          const Settings& settings);

/// Connected transports for ranks that are threads of this process, in order.
std::vector<std::unique_ptr<Transport>> make_transports_of_threads(const Hosts& hosts,
                                                                   Bytes segment);

}  // namespace capstan
