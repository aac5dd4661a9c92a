#pragma once

#include <memory>
#include <vector>

#include "capstan/hosts.hpp"
#include "transports/transport.hpp"

namespace capstan {

/// One transport of two: `near` reaches the ranks on this rank's host, in the order of
/// `hosts.on(...)`, and maps their segments; `far` reaches all others and shares near's segment. A
/// sleep watches the descriptors of both; if one has none, it lasts a millisecond at most.
std::unique_ptr<Transport> make_hierarchical_transport(Rank self, const Hosts& hosts,
                                                       std::unique_ptr<Transport> near,
                                                       std::unique_ptr<Transport> far);

}  // namespace capstan
