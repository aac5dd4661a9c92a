// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "algorithms/registry.hpp"

// Broadcast: every rank ends up with the root's input. Each function expects a group of at least
// two ranks. A rank may return before others have entered: whatever a rank receives first lands in
// its scratch, and only what follows a message of its own may land in its output.

namespace capstan {

std::span<const Algorithm> broadcast_algorithms();

Schedule flat_broadcast(const Group& group, int root, Elements count);
Schedule binomial_broadcast(const Group& group, int root, Elements count);
Schedule chain_broadcast(const Group& group, int root, Elements count);
Schedule direct_broadcast(const Group& group, int root, Elements count);
Schedule leaders_broadcast(const Group& group, int root, Elements count);
Schedule rendezvous_broadcast(const Group& group, int root, Elements count);
Schedule scatter_all_gather_broadcast(const Group& group, int root, Elements count);

}  // namespace capstan
