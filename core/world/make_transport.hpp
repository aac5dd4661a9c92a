#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capstan/hosts.hpp"
#include "capstan/settings.hpp"
#include "transports/transport.hpp"

namespace capstan {

// Which transports make up the links of a communicator: shared memory within a host, the network
// between hosts.

/// As settings.virtual_hosts pretends, or each rank alone if there are to be faults; otherwise one.
Hosts virtual_hosts(int ranks, const Settings& settings);

/// Which ranks share a host, from what each says of its own (host_identity()).
Hosts hosts_of(const std::vector<std::string>& identities, const Settings& settings);

/// Whether the ranks have to tell each other if they have RDMA, to choose a network alike. Looking
/// for it opens devices: so nobody does where it decides nothing.
bool network_depends_on_rdma(const Hosts& hosts, const Settings& settings);
/// Whether this rank has it.
bool has_rdma(const Settings& settings);

/// For the rank at `position` among those on its host: with its own devices in `rdma_devices`.
Settings settings_at(int position, Settings settings);

/// For one of settings.rails: with the interface and the device that this one takes.
Settings settings_of_rail(int rail, Settings settings);

/// The transport of one rank, to be connected. Throws InvalidArgument when the settings ask for
/// what this build or this machine lacks, SystemError.
std::unique_ptr<Transport> make_transport(Rank self, const Hosts& hosts, Network network,
                                          Bytes segment, const Settings& settings);

/// Connected transports for ranks that are threads of this process, in order.
std::vector<std::unique_ptr<Transport>> make_transports_of_threads(const Hosts& hosts,
                                                                   Bytes segment,
                                                                   const Settings& settings);

}  // namespace capstan
