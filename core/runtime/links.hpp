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

/// As settings.virtual_hosts pretends, or each rank alone if there are to be faults; otherwise one.
Hosts virtual_hosts(int ranks, const Settings& settings);

/// What a rank says of itself so that all choose alike: its host, and whether it has RDMA.
std::string self_description();
struct Surroundings {
  Hosts hosts;
  Network network;
};
Surroundings agree_on_surroundings(const std::vector<std::string>& descriptions,
                                   const Settings& settings);

/// The transport of one rank, to be connected. Throws InvalidArgument when the settings ask for
/// what this build or this machine lacks, SystemError.
std::unique_ptr<Transport> make_transport(Rank self, const Hosts& hosts, Network network,
                                          Bytes segment, const Settings& settings);

/// Connected transports for ranks that are threads of this process, in order.
std::vector<std::unique_ptr<Transport>> make_transports_of_threads(const Hosts& hosts,
                                                                   Bytes segment,
                                                                   const Settings& settings);

}  // namespace capstan
