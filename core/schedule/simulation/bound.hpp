// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/schedule/lowering/call.hpp"
#include "core/schedule/simulation/cluster.hpp"

namespace capstan {

/// A time that no algorithm can beat on a cluster.
struct PhysicalBound {
  double time = 0;         ///< nanoseconds
  std::string limited_by;  ///< what the bytes have to cross: "port", "leaf switch", "memory"
};

/// The greatest of the bounds that cuts of the network give: where the ranks are parted into
/// groups, so many bytes have to enter or leave each group, over links of so much bandwidth. One
/// message and the call itself come on top. For an all-reduce, groups cannot do with less than
/// 2(G-1)/G of the buffer on the average of G groups (Patarasu and Yuan, 2009). Calls without
/// counts per rank. A pure function.
PhysicalBound physical_bound(const Call& call, const Cluster& cluster);

}  // namespace capstan
