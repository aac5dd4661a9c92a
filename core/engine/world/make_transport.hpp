// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "capstan/hosts.hpp"
#include "capstan/settings.hpp"
#include "core/platform/net/job_key.hpp"
#include "transports/transport.hpp"

namespace capstan {

// The transports that make up the links of a communicator: shared memory within a host, the network
// between hosts.

/// The network between hosts, and the key by which ranks recognise each other there.
struct NetworkChoice {
  Network kind;
  JobKey key;
};

/// The hosts that settings.virtual_hosts describes; one host for each rank if faults are injected;
/// otherwise a single host.
Hosts virtual_hosts(int ranks, const Settings& settings);

/// The hosts of ranks, from each rank's host_identity().
Hosts hosts_of(const std::vector<std::string>& identities, const Settings& settings);

/// Whether ranks have to agree on whether all have RDMA before they choose a network. The search
/// for RDMA opens devices, so ranks search only where the result decides something.
bool network_depends_on_rdma(const Hosts& hosts, const Settings& settings);
/// Whether this rank has RDMA.
bool has_rdma(const Settings& settings);

/// The settings of the rank at `position` on its host: `rdma_devices` holds its own devices only.
Settings settings_at(int position, Settings settings);

/// The settings of one of settings.rails: with the interface and the device of this rail.
Settings settings_of_rail(int rail, Settings settings);

/// Loads what the transport will need: libfabric takes 150 ms when a process first asks it.
void load_network(const Settings& settings);

/// The transport of one rank, to be connected. Throws InvalidArgument when this build or this
/// machine lacks something that the settings ask for, SystemError.
/// Ranks on other hosts have to prove that they know the key.
std::unique_ptr<Transport> make_transport(Rank self, const Hosts& hosts,
                                          const NetworkChoice& network, Bytes segment,
                                          const Settings& settings);

/// Connected transports for ranks that are threads of this process, in order.
std::vector<std::unique_ptr<Transport>> make_transports_of_threads(const Hosts& hosts,
                                                                   Bytes segment,
                                                                   const Settings& settings);

}  // namespace capstan
