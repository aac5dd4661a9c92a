// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "capstan/hosts.hpp"
#include "transports/transport.hpp"

namespace capstan {

/// Combines two transports. `near` reaches the ranks on this rank's host, numbered in the order of
/// `hosts.on(...)`, and maps their segments. `far` reaches all other ranks and shares near's
/// segment. A sleep watches the descriptors of both; if one has none, it lasts at most a
/// millisecond.
std::unique_ptr<Transport> make_hierarchical_transport(Rank self, const Hosts& hosts,
                                                       std::unique_ptr<Transport> near,
                                                       std::unique_ptr<Transport> far);

}  // namespace capstan
